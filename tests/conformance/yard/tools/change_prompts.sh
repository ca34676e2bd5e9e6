file=prompts/packs/test/coming_and_going.v1.md
date '+Written at %s.%N.' > "$file"
echo '{"data": {"changed": true}}'
