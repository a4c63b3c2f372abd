#!/bin/bash
touch /app/one
