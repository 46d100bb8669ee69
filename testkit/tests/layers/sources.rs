//! Modules of a crate, and which others each of them names.

use proc_macro2::{Ident, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// Path of a module from the root of its crate. That of the root is empty.
pub(crate) type Name = Vec<String>;

#[derive(Default)]
pub(crate) struct Crate {
    modules: BTreeMap<Name, Module>,
}

#[derive(Default)]
struct Module {
    /// Paths named in the module, from the root.
    named: BTreeSet<Name>,
    /// Imported names, and the path of each from the root.
    imports: BTreeMap<String, Name>,
    /// Modules whose names are all imported.
    globs: Vec<Name>,
    /// Names of the module's own items.
    items: BTreeSet<String>,
}

impl Crate {
    /// Reads a crate from its root file on.
    pub(crate) fn read(root: &Path) -> Self {
        let mut all = Self::default();
        let directory = root.parent().expect("a file has a directory").to_owned();
        all.read_file(root, &directory, Name::new());
        all
    }

    /// Makes a crate of texts by module.
    pub(crate) fn of(texts: &[(&str, &str)]) -> Self {
        let mut all = Self::default();
        for (name, text) in texts {
            let name = name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
            let items = syn::parse_file(text).expect("Rust").items;
            all.add(name, &items, &mut |_, _| {});
        }
        all
    }

    pub(crate) fn modules(&self) -> usize {
        self.modules.len()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Name> {
        self.modules.keys()
    }

    /// Returns the modules that one knows, which are those that define what it names.
    pub(crate) fn known_by(&self, name: &Name) -> BTreeSet<Name> {
        let known = self.modules[name].named.iter();
        known.map(|path| self.home(path, 0)).filter(|home| home != name).collect()
    }

    /// Follows a path to the module that defines what it names.
    fn home(&self, path: &[String], followed: usize) -> Name {
        let depth = (0..=path.len()).rev().find(|&depth| self.modules.contains_key(&path[..depth]));
        let depth = depth.unwrap_or(0);
        let (name, rest) = path.split_at(depth);
        let (Some(first), Some(module)) = (rest.first(), self.modules.get(name)) else {
            return name.to_vec();
        };
        assert!(followed < 64, "{path:?} is imported in a circle");
        if let Some(import) = module.imports.get(first) {
            let imported: Name = import.iter().chain(&rest[1..]).cloned().collect();
            // A re-exported macro of the module is imported from where it stands.
            return if imported == path { name.to_vec() } else { self.home(&imported, followed + 1) };
        }
        let of_glob = module.globs.iter().find(|glob| {
            self.modules
                .get(*glob)
                .is_some_and(|other| other.items.contains(first) || other.imports.contains_key(first))
        });
        match of_glob {
            Some(glob) if !module.items.contains(first) => {
                let path: Name = glob.iter().chain(rest).cloned().collect();
                self.home(&path, followed + 1)
            }
            _ => name.to_vec(),
        }
    }

    fn read_file(&mut self, file: &Path, directory: &Path, name: Name) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let items =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).items;
        let mut children = Vec::new();
        self.add(name, &items, &mut |child, path| children.push((child, path)));
        for (child, path) in children {
            let last = child.last().expect("a module has a name");
            let mut inside = directory.to_owned();
            inside.extend(&child[..child.len() - 1]);
            let files = match path {
                Some(path) => vec![file.parent().expect("a directory").join(path)],
                None => vec![inside.join(format!("{last}.rs")), inside.join(last).join("mod.rs")],
            };
            let found: Option<PathBuf> = files.into_iter().find(|file| file.exists());
            self.read_file(&found.unwrap_or_else(|| panic!("{child:?} has no file")), directory, child);
        }
    }

    /// Adds a module with its items. Calls `child` for modules with a file of their own.
    fn add(&mut self, name: Name, items: &[Item], child: &mut impl FnMut(Name, Option<String>)) {
        let mut module = Module::default();
        for item in items {
            if attributes(item).iter().any(is_for_tests) {
                continue;
            }
            if let Item::Mod(inside) = item {
                let mut full = name.clone();
                full.push(inside.ident.to_string());
                match &inside.content {
                    Some((_, items)) => self.add(full, items, child),
                    None => child(full, path_attribute(&inside.attrs)),
                }
                continue;
            }
            if let Some(ident) = ident(item) {
                module.items.insert(ident);
            }
            if let Item::Use(tree) = item {
                module.import(&name, &tree.tree, Name::new());
            }
            Paths { name: &name, module: &mut module }.visit_item(item);
        }
        self.modules.insert(name, module);
    }
}

impl Module {
    fn import(&mut self, name: &Name, tree: &UseTree, mut path: Name) {
        match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                self.import(name, &tree.tree, path);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(name, tree, path.clone()))
            }
            UseTree::Glob(_) => {
                if let Some(full) = from_root(name, &path) {
                    self.named.insert(full.clone());
                    self.globs.push(full);
                }
            }
            UseTree::Name(tree) => self.import_name(name, path, &tree.ident, &tree.ident),
            UseTree::Rename(tree) => self.import_name(name, path, &tree.ident, &tree.rename),
        }
    }

    fn import_name(&mut self, name: &Name, mut path: Name, ident: &Ident, known_as: &Ident) {
        if ident != "self" {
            path.push(ident.to_string());
        }
        let known_as =
            if known_as == "self" { path.last().cloned().unwrap_or_default() } else { known_as.to_string() };
        let full = from_root(name, &path);
        self.named.extend(full.clone());
        // Otherwise it is from another crate, or from a module inside this one.
        let full = full.unwrap_or_else(|| name.iter().chain(&path).cloned().collect());
        self.imports.insert(known_as, full);
    }
}

/// Collects the paths of an item.
struct Paths<'a> {
    name: &'a Name,
    module: &'a mut Module,
}

impl Paths<'_> {
    fn named(&mut self, path: &Name) {
        if let Some(full) = from_root(self.name, path) {
            self.module.named.insert(full);
        }
    }

    /// Collects the paths in the tokens of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Name::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.named(&path);
                        path.clear();
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Group(group) => {
                    self.named(&path);
                    path.clear();
                    colons = 0;
                    self.tokens(group.stream());
                }
                _ => {
                    self.named(&path);
                    path.clear();
                    colons = 0;
                }
            }
        }
        self.named(&path);
    }
}

impl Visit<'_> for Paths<'_> {
    fn visit_path(&mut self, path: &syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.named(&names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &syn::Macro) {
        self.tokens(mac.tokens.clone());
        visit::visit_macro(self, mac);
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        let mut module = Module::default();
        module.import(self.name, &item.tree, Name::new());
        self.module.named.extend(module.named);
    }

    fn visit_vis_restricted(&mut self, _: &syn::VisRestricted) {}
}

/// Returns a path that begins with `crate`, `super` or `self` as a path from the root, and `None` for others.
fn from_root(name: &Name, path: &[String]) -> Option<Name> {
    let (first, mut rest) = path.split_first()?;
    let mut full = match first.as_str() {
        "crate" => Name::new(),
        "self" => name.clone(),
        "super" => name[..name.len().checked_sub(1)?].to_vec(),
        _ => return None,
    };
    while let Some((first, others)) = rest.split_first()
        && first == "super"
    {
        full.pop()?;
        rest = others;
    }
    full.extend(rest.iter().cloned());
    Some(full)
}

fn is_for_tests(attribute: &Attribute) -> bool {
    let mut is_for_tests = false;
    if attribute.path().is_ident("cfg") {
        // `cfg(all(test, ..))` is for tests as well, and so is `cfg(any(test, feature = "fake"))`. Any other `cfg(any(test, ..))` is
        // part of a release.
        let _ = attribute.parse_nested_meta(|meta| {
            is_for_tests |= meta.path.is_ident("test");
            let is_any = meta.path.is_ident("any");
            if meta.path.is_ident("all") || is_any {
                let mut has_other = false;
                meta.parse_nested_meta(|meta| {
                    if meta.path.is_ident("test") {
                        is_for_tests = true;
                    } else {
                        let value = meta.value().ok().and_then(|value| value.parse::<syn::LitStr>().ok());
                        has_other |= value.is_none_or(|value| value.value() != "fake");
                    }
                    Ok(())
                })?;
                is_for_tests &= !(is_any && has_other);
            }
            Ok(())
        });
    }
    is_for_tests
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find(|attribute| attribute.path().is_ident("path")).and_then(|attribute| {
        match &attribute.meta {
            syn::Meta::NameValue(pair) => match &pair.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
                _ => None,
            },
            _ => None,
        }
    })
}

fn attributes(item: &Item) -> &[Attribute] {
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
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
