rmdir /.ors-files /.ors-home 2>/dev/null
ln -s /app /.ors-files
mkdir -p /app/tests
rm -rf /tests; ln -s /app/tests /tests
