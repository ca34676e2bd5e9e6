//! Resolves the ids of a batch to indices and rejects unknown ids, duplicates and cycles.

use super::{RawCall, refuse};
use std::collections::HashMap;
use toolyard_protocol::Error;
use toolyard_protocol::batch::Batch;
use toolyard_protocol::text::{escape_control, nearest};

pub fn build_batch(raw_calls: Vec<RawCall>) -> Result<Batch, Error> {
    let mut indices: HashMap<String, usize> = HashMap::with_capacity(raw_calls.len());
    for (i, call) in raw_calls.iter().enumerate() {
        if call.id.is_empty() || call.id.len() > 200 {
            return Err(refuse(format!("the id of call {} is empty or over 200 bytes", i + 1)));
        }
        if indices.insert(call.id.clone(), i).is_some() {
            return Err(refuse(format!("two calls have the id '{}'", escape_control(&call.id))));
        }
    }
    let needs = raw_calls.iter().map(|call| needs(call, &indices)).collect::<Result<Vec<_>, _>>()?;
    if let Some(cycle) = find_cycle(&needs) {
        let names: Vec<String> = cycle.iter().map(|&index| escape_control(&raw_calls[index].id)).collect();
        return Err(refuse(format!("calls depend on each other in a cycle: {}", names.join(" → "))));
    }
    let index_of = |name: &str| indices.get(name).copied();
    Ok(Batch {
        steps: raw_calls
            .into_iter()
            .zip(needs)
            .map(|(call, needs)| call.into_step(needs, index_of))
            .collect(),
    })
}

fn needs(call: &RawCall, indices: &HashMap<String, usize>) -> Result<Vec<usize>, Error> {
    let mut needs = Vec::new();
    for name in call.references.names().chain(call.depends.iter().map(String::as_str)) {
        let Some(&index) = indices.get(name) else {
            let error = refuse(format!(
                "call '{}' depends on the unknown call '{}'",
                escape_control(&call.id),
                escape_control(name)
            ));
            return Err(match nearest(name, indices.keys().map(String::as_str)) {
                Some(near) => error.hint(format!("did you mean '{near}'?")),
                None => error,
            });
        };
        if !needs.contains(&index) {
            needs.push(index);
        }
    }
    Ok(needs)
}

/// A cycle, if there is one: topological sorting removes every step that is not on or behind a cycle.
fn find_cycle(needs: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut left: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut dependants = vec![Vec::new(); needs.len()];
    for (step, needs) in needs.iter().enumerate() {
        needs.iter().for_each(|&need| dependants[need].push(step));
    }
    let mut ready: Vec<usize> = (0..needs.len()).filter(|&step| left[step] == 0).collect();
    while let Some(step) = ready.pop() {
        for &dependant in &dependants[step] {
            left[dependant] -= 1;
            if left[dependant] == 0 {
                ready.push(dependant);
            }
        }
    }
    let mut step = (0..needs.len()).find(|&step| left[step] > 0)?;
    let mut path = Vec::new();
    // Every remaining step depends on another remaining one, so the walk must repeat a step.
    while !path.contains(&step) {
        path.push(step);
        step = *needs[step].iter().find(|&&need| left[need] > 0)?;
    }
    path.push(step);
    Some(path.split_off(path.iter().position(|&seen| seen == step)?))
}
