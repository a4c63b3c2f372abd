env > /app/token
cat /proc/self/environ >> /app/token
cat /proc/1/environ >> /app/token 2>/dev/null
