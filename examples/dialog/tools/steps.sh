read -r request
for step in 1 2 3; do
  printf '{"$toolyard": {"progress": {"done": %d, "total": 3, "message": "step %d"}}}\n' $step $step
done
printf '{"$toolyard": {"log": {"level": "info", "message": "no step was skipped"}}}\n'
printf '{"data": {"steps": 3}}\n'
