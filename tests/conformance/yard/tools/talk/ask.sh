read -r request
echo '{"$toolyard": {"ask": {"id": "word", "elicit": {"message": "A word, please", "schema": {"type": "object", "properties": {"word": {"type": "string"}}}}}}}'
read -r answer
echo '"Thank you"'
