head -c 400M /dev/zero > /app/fill 2>/dev/null
for i in $(seq 1 200); do echo 1 > /app/f$i; done
