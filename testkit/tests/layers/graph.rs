//! Cycles among sibling modules.

use crate::sources::{Crate, Name};
use std::collections::{BTreeMap, BTreeSet};

/// Edges between sibling modules, and for each the modules inside them that make it.
type Edges = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Returns a text for each cycle of sibling modules.
pub(crate) fn cycles(read: &Crate) -> Vec<String> {
    let mut levels: BTreeMap<Name, Edges> = BTreeMap::new();
    for from in read.names() {
        for to in read.known_by(from) {
            let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
            // Otherwise one of the two contains the other.
            let (Some(one), Some(other)) = (from.get(shared), to.get(shared)) else { continue };
            let level = levels.entry(from[..shared].to_vec()).or_default();
            let edge = level.entry(one.clone()).or_default().entry(other.clone()).or_default();
            edge.insert(format!("{} -> {}", from.join("::"), to.join("::")));
        }
    }
    levels.iter().flat_map(|(level, edges)| of_level(level, edges)).collect()
}

fn of_level(level: &Name, edges: &Edges) -> Vec<String> {
    let mut told = BTreeSet::new();
    let mut texts = Vec::new();
    for start in edges.keys() {
        let circle: BTreeSet<_> =
            reached(edges, start).into_iter().filter(|other| reached(edges, other).contains(start)).collect();
        if circle.is_empty() || told.contains(start) {
            continue;
        }
        let names: Vec<_> = circle.iter().map(String::as_str).collect();
        let mut text = format!(
            "in {}: {}",
            if level.is_empty() { "the root".into() } else { level.join("::") },
            names.join(", ")
        );
        for one in &circle {
            for (other, why) in
                edges.get(one).into_iter().flatten().filter(|(other, _)| circle.contains(*other))
            {
                let why: Vec<_> = why.iter().map(String::as_str).collect();
                text += &format!("\n    {one} knows {other}: {}", why.join(", "));
            }
        }
        told.extend(circle);
        texts.push(text);
    }
    texts
}

/// Returns the modules that one knows, directly or indirectly.
fn reached(edges: &Edges, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(one) = next.pop() {
        for other in edges.get(&one).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(other.clone()) {
                next.push(other.clone());
            }
        }
    }
    reached
}
