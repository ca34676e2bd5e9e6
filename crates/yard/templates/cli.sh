# The name arrives as one argument, whatever it contains; the result is one JSON document on stdout.
name=$(printf '%s' "$1" | tr -d '[:cntrl:]' | sed 's/\\/\\\\/g; s/"/\\"/g')
printf '{"data": {"greeting": "Hello, %s!"}}\n' "$name"
