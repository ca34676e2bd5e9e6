case $1 in
1.0) changes='the first release' ;;
*) changes='faster start, clearer errors' ;;
esac
printf '{"data": {"messages": [{"role": "user", "content": "Write release notes for %s: %s."}]}}\n' "$1" "$changes"
