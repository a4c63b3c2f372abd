#!/bin/bash
rev /app/seed > /app/state
