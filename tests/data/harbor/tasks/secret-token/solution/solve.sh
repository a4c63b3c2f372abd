#!/bin/bash
echo "$TOKEN" > /app/token
