read -r request
say() { printf '{"$toolyard": {"log": {"level": "info", "message": "%s"}}}\n' "$1"; }
say 'Tool execution started'
sleep 0.05
say 'Tool processing data'
sleep 0.05
say 'Tool execution completed'
echo '"Tool with logging executed"'
