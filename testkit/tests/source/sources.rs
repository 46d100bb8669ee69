//! The modules of a crate with their items, and where a path that is written in one of them leads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use syn::punctuated::Punctuated;
use syn::{Attribute, Item, Meta, Token, UseTree};

/// Path of a module from the root of its crate. That of the root is empty.
pub(crate) type Name = Vec<String>;

/// Target of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A module of this crate.
    Module(Name),
    /// An item of this crate, by its module and its name.
    Item(Name, String),
    /// Anything else, by the module of this crate where the path leaves what was read, and the rest of the path: an item of another crate,
    /// a type parameter, or the output of a macro.
    Foreign(Name, Name),
}

#[derive(Default)]
pub(crate) struct Module {
    pub(crate) items: Vec<Item>,
    /// Names from elsewhere, with the path that each stands for, as it is written.
    imports: BTreeMap<String, Name>,
    globs: Vec<Name>,
}

/// Most imports that a path is followed through. Real ones need fewer than ten.
const FOLLOWED_MAX: usize = 20;

pub(crate) struct Crate {
    pub(crate) modules: BTreeMap<Name, Module>,
}

/// Decides by its attributes whether an item is left out.
pub(crate) type LeftOut = fn(&[Attribute]) -> bool;

impl Crate {
    /// Reads a crate from its root file on.
    pub(crate) fn read(root: &Path, left_out: LeftOut) -> Self {
        let mut read = Self { modules: BTreeMap::new() };
        let directory = root.parent().expect("a file has a directory");
        read.read_file(root, directory, Name::new(), left_out);
        read
    }

    /// Makes a crate of texts by module.
    pub(crate) fn of(texts: &[(&str, &str)], left_out: LeftOut) -> Self {
        let mut made = Self { modules: BTreeMap::new() };
        for (name, text) in texts {
            let name = name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
            made.add(name, syn::parse_file(text).expect("Rust").items, left_out);
        }
        made
    }

    fn read_file(&mut self, file: &Path, directory: &Path, name: Name, left_out: LeftOut) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let items =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).items;
        for (child, path) in self.add(name, items, left_out) {
            let (last, above) = child.split_last().expect("a module has a name");
            let inside: PathBuf = directory.iter().chain(above.iter().map(AsRef::as_ref)).collect();
            let files = match path {
                Some(path) => vec![file.parent().expect("a directory").join(path)],
                None => vec![inside.join(format!("{last}.rs")), inside.join(last).join("mod.rs")],
            };
            let found = files.iter().find(|file| file.exists());
            self.read_file(
                found.unwrap_or_else(|| panic!("{child:?} has no file")),
                directory,
                child,
                left_out,
            );
        }
    }

    /// Adds a module. Returns those inside it that have files of their own, with their `path` attributes.
    fn add(&mut self, name: Name, items: Vec<Item>, left_out: LeftOut) -> Vec<(Name, Option<String>)> {
        let mut files = Vec::new();
        let mut module = Module::default();
        for item in items {
            if left_out(attributes(&item)) {
                continue;
            }
            match &item {
                Item::Mod(inside) => {
                    let mut full = name.clone();
                    full.push(inside.ident.to_string());
                    match &inside.content {
                        Some((_, items)) => files.extend(self.add(full, items.clone(), left_out)),
                        None => files.push((full, path_attribute(&inside.attrs))),
                    }
                }
                Item::Use(tree) => module.import(&tree.tree),
                _ => {}
            }
            module.items.push(item);
        }
        self.modules.insert(name, module);
        files
    }

    /// Follows a path that is written in `module`.
    pub(crate) fn target(&self, module: &[String], path: &[String]) -> Target {
        self.follow(module, path, 0)
    }

    fn follow(&self, module: &[String], path: &[String], followed: usize) -> Target {
        if followed == FOLLOWED_MAX {
            // Two modules import all of each other, and neither has the name.
            return Target::Foreign(module.to_vec(), path.to_vec());
        }
        let Some((first, rest)) = path.split_first() else { return Target::Module(module.to_vec()) };
        match first.as_str() {
            "crate" => return self.follow(&[], rest, followed + 1),
            "self" => return self.follow(module, rest, followed + 1),
            "super" => return self.follow(&module[..module.len() - 1], rest, followed + 1),
            _ => {}
        }
        let foreign = Target::Foreign(module.to_vec(), path.to_vec());
        let Some(here) = self.modules.get(module) else { return foreign };
        let inside: Name = module.iter().chain([first]).cloned().collect();
        let is_module = self.modules.contains_key(&inside);
        // A function and a module can have the same name.
        if here.item(first).is_some() && (rest.is_empty() || !is_module) {
            return Target::Item(module.to_vec(), first.clone());
        }
        if is_module {
            return self.follow(&inside, rest, followed + 1);
        }
        if let Some(import) = here.imports.get(first) {
            let full: Name = import.iter().chain(rest).cloned().collect();
            // `use other::other` names a crate.
            return if full == path { foreign } else { self.follow(module, &full, followed + 1) };
        }
        if here.globs.iter().any(|glob| glob == path) {
            // Of another crate.
            return foreign;
        }
        for glob in &here.globs {
            let Target::Module(name) = self.follow(module, glob, followed + 1) else { continue };
            if name == module {
                continue;
            }
            match self.follow(&name, path, followed + 1) {
                // Nothing of the path is in that module.
                Target::Foreign(_, rest) if rest.len() >= path.len() => {}
                found => return found,
            }
        }
        foreign
    }
}

impl Module {
    /// The item of a name.
    pub(crate) fn item(&self, name: &str) -> Option<&Item> {
        self.items.iter().find(|item| ident(item).is_some_and(|ident| ident == name))
    }

    fn import(&mut self, tree: &UseTree) {
        for (known_as, path) in leaves(tree, Name::new()) {
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

/// The names of a path.
pub(crate) fn names(path: &syn::Path) -> Name {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// Returns true for tests: `cfg(test)`, `cfg(all(test, ..))` and `cfg(any(test, feature = "fake"))`. Code behind any other
/// `cfg(any(test, ..))` is part of a release, as is code behind `cfg(not(test))`.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    let mut conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    conditions.any(|attribute| attribute.parse_args().is_ok_and(|condition| names_test(&condition)))
}

fn names_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => parts(list).iter().any(names_test),
        Meta::List(list) if list.path.is_ident("any") => {
            let parts = parts(list);
            parts.iter().any(names_test)
                && parts.iter().all(|part| names_test(part) || is_feature(part, "fake"))
        }
        _ => false,
    }
}

fn parts(list: &syn::MetaList) -> Vec<Meta> {
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    parts.map_or_else(|_| Vec::new(), |parts| parts.into_iter().collect())
}

fn is_feature(condition: &Meta, feature: &str) -> bool {
    matches!(condition, Meta::NameValue(pair) if pair.path.is_ident("feature")
        && matches!(&pair.value, syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) if text.value() == feature))
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    match &pair.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
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
