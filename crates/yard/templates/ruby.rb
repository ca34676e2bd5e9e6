# The arguments arrive as JSON on stdin; the result is one JSON document on stdout.
require "json"

input = JSON.parse($stdin.read)
puts JSON.generate(data: { greeting: "Hello, #{input["name"]}!" })
