file=tools/coming_and_going/visitor.tool.yaml
if [ -e "$file" ]; then
    rm "$file"
else
    printf 'id: test_visitor\nkind: cli\nentry: [cat]\ndescription: Here every other time\n' > "$file.new"
    mv "$file.new" "$file"
fi
echo '{"data": {"changed": true}}'
