//! Cycles among sibling modules.

use crate::sources::{Crate, Module, Name, Target, leaves, names};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::Item;
use syn::visit::{self, Visit};

/// Edges between sibling modules, and for each the modules inside them that make it.
type Edges = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Returns a text for each cycle of sibling modules.
pub(crate) fn cycles(read: &Crate) -> Vec<String> {
    let mut levels: BTreeMap<Name, Edges> = BTreeMap::new();
    for (from, module) in &read.modules {
        for to in known_by(read, from, module) {
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
    let mut listed = BTreeSet::new();
    let mut texts = Vec::new();
    for start in edges.keys() {
        let cycle: BTreeSet<_> =
            reached(edges, start).into_iter().filter(|other| reached(edges, other).contains(start)).collect();
        if cycle.is_empty() || listed.contains(start) {
            continue;
        }
        let names: Vec<_> = cycle.iter().map(String::as_str).collect();
        let mut text = format!(
            "in {}: {}",
            if level.is_empty() { "the root".into() } else { level.join("::") },
            names.join(", ")
        );
        for one in &cycle {
            for (other, why) in
                edges.get(one).into_iter().flatten().filter(|(other, _)| cycle.contains(*other))
            {
                let why: Vec<_> = why.iter().map(String::as_str).collect();
                text += &format!("\n    {one} knows {other}: {}", why.join(", "));
            }
        }
        listed.extend(cycle);
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

/// Returns the modules that one knows, which are those that define what it names.
fn known_by(read: &Crate, name: &Name, module: &Module) -> BTreeSet<Name> {
    let mut paths = Paths::default();
    module.items.iter().for_each(|item| paths.visit_item(item));
    let Paths { paths, aliases } = paths;
    let expanded = paths.iter().filter_map(|path| {
        let (first, rest) = path.split_first()?;
        let full: Name = aliases.get(first)?.iter().chain(rest).cloned().collect();
        (full != *path).then_some(full)
    });
    let homes = expanded.chain(paths.iter().cloned()).map(|path| match read.target(name, &path) {
        Target::Module(home) | Target::Item(home, _) | Target::Foreign(home, _) => home,
    });
    homes.filter(|home| home != name).collect()
}

/// Paths named by items, also in the tokens of macros.
#[derive(Default)]
struct Paths {
    paths: BTreeSet<Name>,
    /// Names that a `use` brings in, also inside of functions, and what they stand for.
    aliases: BTreeMap<String, Name>,
}

impl Paths {
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Name::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) if colons == 2 => path.push(ident.to_string()),
                TokenTree::Ident(ident) => {
                    self.paths.insert(core::mem::replace(&mut path, vec![ident.to_string()]));
                }
                other => {
                    self.paths.insert(core::mem::take(&mut path));
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
            colons = 0;
        }
        self.paths.insert(path);
    }
}

impl Visit<'_> for Paths {
    fn visit_item(&mut self, item: &Item) {
        match item {
            // A module of its own.
            Item::Mod(_) => {}
            Item::Use(item) => {
                for (known_as, path) in leaves(&item.tree, Name::new()) {
                    self.aliases.extend(known_as.map(|known_as| (known_as, path.clone())));
                    self.paths.insert(path);
                }
            }
            Item::ExternCrate(item) => {
                assert!(
                    item.ident != "self",
                    "write `crate`: paths through another name of it are not followed"
                );
            }
            item => visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        self.paths.insert(names(path));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &syn::Macro) {
        self.tokens(mac.tokens.clone());
        visit::visit_macro(self, mac);
    }

    fn visit_vis_restricted(&mut self, _: &syn::VisRestricted) {}
}
