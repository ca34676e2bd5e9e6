# The name arrives as one argument, whatever it holds; the answer is one JSON document on stdout.
name=$(printf '%s' "$1" | tr -d '[:cntrl:]' | sed 's/\\/\\\\/g; s/"/\\"/g')
printf '{"data": {"greeting": "Hello, %s!"}}\n' "$name"
