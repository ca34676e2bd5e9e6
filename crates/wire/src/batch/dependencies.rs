//! Turns the names of a batch into indices, and refuses what could never run.

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
    if let Some(circle) = find_cycle(&needs) {
        let names: Vec<String> = circle.iter().map(|&index| escape_control(&raw_calls[index].id)).collect();
        return Err(refuse(format!("calls wait for each other in a circle: {}", names.join(" → "))));
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
                "call '{}' needs '{}', which is not in it",
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

/// Some circle, if there is one: steps are removed as their needs are, and what stays has one.
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
    // Each step of the rest needs another of the rest, so the walk comes back.
    while !path.contains(&step) {
        path.push(step);
        step = *needs[step].iter().find(|&&need| left[need] > 0)?;
    }
    path.push(step);
    Some(path.split_off(path.iter().position(|&seen| seen == step)?))
}
