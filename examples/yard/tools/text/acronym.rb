# The arguments arrive as JSON on stdin; the result is one JSON document on stdout.
require "json"

input = JSON.parse($stdin.read)
skip = (input["skip"] || []).map(&:downcase)
words = input["phrase"].scan(/[[:alpha:]][[:alpha:]'-]*/).reject { |word| skip.include?(word.downcase) }
puts JSON.generate(data: { acronym: words.map { |word| word[0].upcase }.join })
