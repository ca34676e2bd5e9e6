//! `[[resources.root]]`: folders whose files clients may read, and write or delete where allowed.

use super::view;
use std::path::PathBuf;
use toolyard_formats::doc::{Fields, Node, Value};
use toolyard_runtimes::builtin::Setting;
use toolyard_yard::resources::{RootAccess, RootSetting, is_root_name};

#[derive(Default)]
pub struct Resources {
    pub roots: Vec<RootSetting>,
}

const MAX_ROOTS: usize = 64;

impl Resources {
    /// A root replaces one of the same name from an earlier layer.
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        let Some(node) = fields.take("root") else { return };
        let Value::List(items) = &node.value else {
            let wanted = "a list of tables";
            return fields.wrong(node, "root", wanted).unwrap_or_default();
        };
        let mut layer: Vec<RootSetting> = Vec::new();
        for item in items {
            let Some((root, position)) = read_root(fields, item) else { continue };
            if layer.iter().any(|known| known.name == root.name) {
                let message = format!("two roots have the name '{}'", root.name);
                fields.problem(position, message, "names are part of addresses; give each root its own");
            }
            layer.push(root);
        }
        for root in layer {
            self.roots.retain(|known| known.name != root.name);
            self.roots.push(root);
        }
        if self.roots.len() > MAX_ROOTS {
            let message = format!("there are {} roots; at most {MAX_ROOTS} are allowed", self.roots.len());
            fields.problem(node.position, message, "remove some");
        }
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        let row = |root: &RootSetting| {
            let (write, delete) = (root.access.write, root.access.delete);
            let granted = [(write, " write"), (delete, " delete")];
            let granted: String = granted.iter().filter(|(yes, _)| *yes).map(|(_, word)| *word).collect();
            format!("{}={}{granted}", root.name, root.path.display())
        };
        let roots: Vec<String> = self.roots.iter().map(row).collect();
        vec![("root", view::text(roots.join(", ")))]
    }
}

fn read_root(outer: &mut Fields<'_>, item: &Node) -> Option<(RootSetting, toolyard_formats::doc::Position)> {
    let mut fields = match Fields::open(item, "resources.root") {
        Ok(fields) => fields,
        Err(problem) => {
            outer.problems.push(problem);
            return None;
        }
    };
    let path = fields.required_text("path", "the folder, relative to the yard or absolute");
    let name = fields.required_text("name", "the name in addresses: yard://NAME/path");
    let name = name.filter(|(name, position)| {
        let fits = is_root_name(name);
        if !fits {
            let message = format!("'resources.root.name' is '{name}'");
            fields.problem(*position, message, "use 1 to 64 lower-case letters, digits, '-' and '_'");
        }
        fits
    });
    let mut switch = |key| fields.bool(key).unwrap_or(false);
    let access = RootAccess { write: switch("write"), delete: switch("delete") };
    outer.close(fields);
    let (path, (name, position)) = (path?.0, name?);
    Some((RootSetting { name: name.to_owned(), path: PathBuf::from(path), access }, position))
}
