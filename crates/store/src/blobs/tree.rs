//! The BLAKE3 tree of a blob above its groups, which verifies a range without reading the rest.
//!
//! A group is 64 chunks of BLAKE3. Each inner node above the groups is stored as the pair of its children's
//! chaining values, in post-order, so that the tree can be written while streaming; the root comes last. No
//! file access here.

use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use toolyard_protocol::Hash;

/// Bytes that are verified as one unit.
pub(super) const GROUP: u64 = 64 * 1024;

/// Bytes of one stored node: the chaining values of its two children.
pub(super) const PAIR: usize = 64;

pub(super) type Pair = [u8; PAIR];

pub(super) fn groups(size: u64) -> u64 {
    size.div_ceil(GROUP)
}

/// Length of the stored tree of a blob; a single group has none.
pub(super) fn tree_len(size: u64) -> u64 {
    groups(size).saturating_sub(1) * PAIR as u64
}

/// Hashes a stream of bytes and emits each node of the tree once it is complete.
pub(super) struct Builder {
    /// The current group. A complete one stays here until more bytes follow.
    group: Hasher,
    in_group: u64,
    done: u64,
    /// Complete subtrees from left to right, each larger than the next.
    subtrees: Vec<ChainingValue>,
    last: Option<(ChainingValue, ChainingValue)>,
}

impl Builder {
    pub fn new() -> Builder {
        Builder { group: Hasher::new(), in_group: 0, done: 0, subtrees: Vec::new(), last: None }
    }

    /// Hashes the next bytes and appends the nodes they complete to `nodes`.
    pub fn update(&mut self, mut bytes: &[u8], nodes: &mut Vec<u8>) {
        while !bytes.is_empty() {
            if self.in_group == GROUP {
                self.close_group(nodes);
            }
            let free = (GROUP - self.in_group) as usize;
            let (now, later) = bytes.split_at(free.min(bytes.len()));
            self.group.update(now);
            self.in_group += now.len() as u64;
            bytes = later;
        }
    }

    /// Returns the hash and the size, and appends the remaining nodes, the root last.
    pub fn finish(mut self, nodes: &mut Vec<u8>) -> (Hash, u64) {
        let size = self.done * GROUP + self.in_group;
        if self.done == 0 {
            return (Hash::from_bytes(self.group.finalize().into()), size);
        }
        self.close_group(nodes);
        while self.subtrees.len() > 1 {
            self.merge(nodes);
        }
        let (left, right) = self.last.unwrap_or_default();
        (Hash::from_bytes(merge_subtrees_root(&left, &right, Mode::Hash).into()), size)
    }

    fn close_group(&mut self, nodes: &mut Vec<u8>) {
        self.subtrees.push(self.group.finalize_non_root());
        self.done += 1;
        self.group = Hasher::new();
        self.group.set_input_offset(self.done * GROUP);
        self.in_group = 0;
        // As many subtrees are complete as the count of groups has trailing zeros.
        for _ in 0..self.done.trailing_zeros() {
            self.merge(nodes);
        }
    }

    fn merge(&mut self, nodes: &mut Vec<u8>) {
        let (Some(right), Some(left)) = (self.subtrees.pop(), self.subtrees.pop()) else { return };
        nodes.extend_from_slice(&left);
        nodes.extend_from_slice(&right);
        self.subtrees.push(merge_subtrees_non_root(&left, &right, Mode::Hash));
        // The root is merged differently, and only `finish` knows which node is the root.
        self.last = Some((left, right));
    }
}

/// Descends a stored tree from the root, verifying each node by its parent. Holds one node per level.
pub(super) struct TreeWalk {
    open: Vec<Node>,
}

struct Node {
    first: u64,
    groups: u64,
    /// Index of the first stored pair of its subtree.
    at: u64,
    expect: Expect,
}

enum Expect {
    Root(Hash),
    Inner(ChainingValue),
}

/// A group and the chaining value it must have.
pub(super) struct Leaf {
    pub group: u64,
    pub value: ChainingValue,
}

impl TreeWalk {
    /// For a blob of at least two groups.
    pub fn new(root: Hash, size: u64) -> TreeWalk {
        TreeWalk { open: vec![Node { first: 0, groups: groups(size), at: 0, expect: Expect::Root(root) }] }
    }

    /// The next group from `from` on. `read` returns a stored pair by its index. `Ok(None)` if a pair fails
    /// verification, or at the end.
    pub fn next<E>(
        &mut self,
        from: u64,
        mut read: impl FnMut(u64) -> Result<Pair, E>,
    ) -> Result<Option<Leaf>, E> {
        while let Some(node) = self.open.pop() {
            if node.first + node.groups <= from {
                continue;
            }
            if let (1, Expect::Inner(value)) = (node.groups, &node.expect) {
                return Ok(Some(Leaf { group: node.first, value: *value }));
            }
            let pair = read(node.at + node.groups.saturating_sub(2))?;
            let Some((left, right)) = verified(&pair, &node.expect) else { return Ok(None) };
            let half = node.groups.next_power_of_two() / 2;
            self.open.push(Node {
                first: node.first + half,
                groups: node.groups - half,
                at: node.at + half - 1,
                expect: Expect::Inner(right),
            });
            self.open.push(Node {
                first: node.first,
                groups: half,
                at: node.at,
                expect: Expect::Inner(left),
            });
        }
        Ok(None)
    }
}

fn verified(pair: &Pair, expect: &Expect) -> Option<(ChainingValue, ChainingValue)> {
    let (left, right) = pair.split_at(PAIR / 2);
    let (left, right) = (left.try_into().ok()?, right.try_into().ok()?);
    let matches = match expect {
        Expect::Root(hash) => merge_subtrees_root(&left, &right, Mode::Hash) == *hash.as_bytes(),
        Expect::Inner(value) => merge_subtrees_non_root(&left, &right, Mode::Hash) == *value,
    };
    matches.then_some((left, right))
}

/// The chaining value of one group of a blob that has several.
pub(super) fn group_value(group: u64, bytes: &[u8]) -> ChainingValue {
    Hasher::new().set_input_offset(group * GROUP).update(bytes).finalize_non_root()
}

/// The hash of bytes in memory.
pub(super) fn hash(bytes: &[u8]) -> Hash {
    Hash::from_bytes(blake3::hash(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn built(bytes: &[u8], step: usize) -> (Hash, u64, Vec<u8>) {
        let (mut builder, mut nodes) = (Builder::new(), Vec::new());
        for part in bytes.chunks(step) {
            builder.update(part, &mut nodes);
        }
        let (hash, size) = builder.finish(&mut nodes);
        (hash, size, nodes)
    }

    fn sample(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn the_root_is_the_plain_hash_and_every_group_is_proven(
            groups_before in 0usize..20, around in -2i64..3, step in 1usize..200_000, from in 0u64..20,
        ) {
            let len = (groups_before as i64 * GROUP as i64 + around).max(0) as usize;
            let bytes = sample(len);
            let (root, size, nodes) = built(&bytes, step);
            prop_assert_eq!(root, hash(&bytes));
            prop_assert_eq!(size, len as u64);
            prop_assert_eq!(nodes.len() as u64, tree_len(size));
            if groups(size) < 2 {
                return Ok(());
            }
            let mut walk = TreeWalk::new(root, size);
            let mut read = |pair: u64| -> Result<Pair, ()> {
                Ok(nodes[pair as usize * PAIR..][..PAIR].try_into().unwrap())
            };
            for group in from.min(groups(size))..groups(size) {
                let leaf = walk.next(from, &mut read).unwrap().expect("a group");
                prop_assert_eq!(leaf.group, group);
                let start = (group * GROUP) as usize;
                let part = &bytes[start..len.min(start + GROUP as usize)];
                prop_assert_eq!(leaf.value, group_value(group, part));
            }
            prop_assert!(walk.next(from, &mut read).unwrap().is_none());
        }
    }

    #[test]
    fn no_changed_node_is_believed() {
        let bytes = sample(7 * GROUP as usize + 5);
        let (root, size, nodes) = built(&bytes, 10_000);
        for index in 0..nodes.len() {
            let mut bad = nodes.clone();
            bad[index] ^= 1;
            let mut walk = TreeWalk::new(root, size);
            let mut read = |pair: u64| -> Result<Pair, ()> {
                Ok(bad[pair as usize * PAIR..][..PAIR].try_into().unwrap())
            };
            let found = std::iter::from_fn(|| walk.next(0, &mut read).unwrap()).count() as u64;
            assert!(found < groups(size), "byte {index} of the tree was changed, unnoticed");
        }
    }
}
