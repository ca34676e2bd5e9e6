read -r request
echo '{"$toolyard": {"rpc_error": {"code": -32603, "message": "The job fell over", "data": {"reason": "on purpose"}}}}'
