#!/bin/bash
echo ready > ready
