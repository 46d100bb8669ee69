//! The modules of a crate with their items, and where a path that is written in one of them leads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use syn::{Attribute, Item, UseTree, Visibility};

/// A path from the root of its crate.
pub(crate) type Name = Vec<String>;

/// Target of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A module of this crate.
    Module(Name),
    /// An item of this crate, by its module and its name.
    Item(Name, String),
    /// An item of another crate, of the standard library, or a type parameter.
    Foreign(Name),
}

#[derive(Default)]
pub(crate) struct Module {
    pub(crate) items: Vec<Item>,
    /// Names from elsewhere, with the path that each stands for, as it is written.
    imports: BTreeMap<String, Name>,
    globs: Vec<Name>,
}

/// A crate.
pub(crate) struct Tree {
    pub(crate) modules: BTreeMap<Name, Module>,
}

impl Tree {
    /// Reads a crate from its root file on, without its tests.
    pub(crate) fn read(root: &Path) -> Self {
        let mut tree = Self { modules: BTreeMap::new() };
        let directory = root.parent().expect("a file has a directory").to_owned();
        tree.read_file(root, &directory, Name::new());
        tree
    }

    /// Makes one of texts by module.
    pub(crate) fn of(texts: &[(&str, &str)]) -> Self {
        let mut tree = Self { modules: BTreeMap::new() };
        for (name, text) in texts {
            let name = name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
            tree.add(name, syn::parse_file(text).expect("Rust").items);
        }
        tree
    }

    fn read_file(&mut self, file: &Path, directory: &Path, name: Name) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let items =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).items;
        for child in self.add(name, items) {
            let inside: PathBuf =
                directory.iter().chain(child[..child.len() - 1].iter().map(AsRef::as_ref)).collect();
            let last = child.last().expect("a module has a name");
            let files = [inside.join(format!("{last}.rs")), inside.join(last).join("mod.rs")];
            let found = files.iter().find(|file| file.exists());
            self.read_file(found.unwrap_or_else(|| panic!("{child:?} has no file")), directory, child);
        }
    }

    /// Adds a module, and returns those inside it that have files of their own.
    fn add(&mut self, name: Name, items: Vec<Item>) -> Vec<Name> {
        let mut files = Vec::new();
        let mut module = Module::default();
        for item in items {
            if is_left_out(attributes(&item)) {
                continue;
            }
            match &item {
                Item::Mod(inside) => {
                    let mut full = name.clone();
                    full.push(inside.ident.to_string());
                    match &inside.content {
                        Some((_, items)) => files.extend(self.add(full, items.clone())),
                        None => files.push(full),
                    }
                }
                Item::Use(tree) => module.import(&tree.tree, Name::new()),
                _ => {}
            }
            module.items.push(item);
        }
        self.modules.insert(name, module);
        files
    }

    /// Follows a path that is written in `module`.
    pub(crate) fn target(&self, module: &Name, path: &[String]) -> Target {
        self.follow(module, path, 0)
    }

    fn follow(&self, module: &Name, path: &[String], followed: usize) -> Target {
        assert!(followed < 64, "{path:?} is imported in a circle");
        let Some((first, rest)) = path.split_first() else { return Target::Module(module.clone()) };
        match first.as_str() {
            "crate" => return self.follow(&Name::new(), rest, followed + 1),
            "self" => return self.follow(module, rest, followed + 1),
            "super" => return self.follow(&module[..module.len() - 1].to_vec(), rest, followed + 1),
            _ => {}
        }
        let Some(here) = self.modules.get(module) else { return Target::Foreign(path.to_vec()) };
        if here.items.iter().any(|item| ident(item).is_some_and(|name| name == *first)) {
            return Target::Item(module.clone(), first.clone());
        }
        let inside: Name = module.iter().chain([first]).cloned().collect();
        if self.modules.contains_key(&inside) {
            return self.follow(&inside, rest, followed + 1);
        }
        if let Some(import) = here.imports.get(first) {
            let full: Name = import.iter().chain(rest).cloned().collect();
            // `use other::other` names a crate.
            return if full == path {
                Target::Foreign(full)
            } else {
                self.follow(module, &full, followed + 1)
            };
        }
        for glob in &here.globs {
            if let Target::Module(name) = self.follow(module, glob, followed + 1)
                && name != *module
                && let found @ (Target::Item(..) | Target::Module(_)) = self.follow(&name, path, followed + 1)
            {
                return found;
            }
        }
        Target::Foreign(path.to_vec())
    }
}

impl Module {
    /// The item of a name.
    pub(crate) fn item(&self, name: &str) -> Option<&Item> {
        self.items.iter().find(|item| ident(item).is_some_and(|ident| ident == name))
    }

    fn import(&mut self, tree: &UseTree, path: Name) {
        for (known_as, path) in leaves(tree, path) {
            match known_as {
                Some(known_as) => drop(self.imports.insert(known_as, path)),
                None => self.globs.push(path),
            }
        }
    }
}

/// Names that a `use` brings in, and what they stand for; no name for all of a module.
pub(crate) fn leaves(tree: &UseTree, mut path: Name) -> Vec<(Option<String>, Name)> {
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            leaves(&tree.tree, path)
        }
        UseTree::Group(group) => group.items.iter().flat_map(|tree| leaves(tree, path.clone())).collect(),
        UseTree::Glob(_) => vec![(None, path)],
        UseTree::Name(tree) => named(path, tree.ident.to_string(), None),
        UseTree::Rename(tree) => named(path, tree.ident.to_string(), Some(tree.rename.to_string())),
    }
}

fn named(mut path: Name, ident: String, known_as: Option<String>) -> Vec<(Option<String>, Name)> {
    if ident != "self" {
        path.push(ident);
    }
    let known_as = known_as.or_else(|| path.last().cloned());
    vec![(known_as, path)]
}

/// Returns true for what is not part of a release: tests, and what only the workspace's own programs use.
pub(crate) fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = crate::text::of(attribute);
        let is_internal = text == "#[cfg(feature = \"internals\")]";
        is_internal || text.starts_with("#[cfg(") && text.contains("test") && !text.contains("not(test)")
    })
}

pub(crate) const fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn ident(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
