//! The exported items of a crate, one line each.

use super::text;
use crate::sources::{Crate, Name, Target, attributes, is_for_tests, leaves, names};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, TraitItem, Type, Visibility};

/// Lines of a crate's exported API, and types that are in its signatures and not exported.
pub(crate) struct List {
    pub(crate) lines: Vec<String>,
    pub(crate) unnamed: Vec<String>,
}

/// Lists the exported items of a crate.
pub(crate) fn list(name: &str, tree: &Crate) -> List {
    let mut lister = Lister { tree, lines: Vec::new(), exported: BTreeMap::new(), uses: Vec::new() };
    lister.module(&Name::new(), name, "");
    lister.impls();
    let unnamed: BTreeSet<_> =
        lister.uses.iter().filter_map(|(line, used)| lister.unnamed(line, used)).collect();
    let mut lines = lister.lines;
    lines.sort_by(|one, other| key(one).cmp(key(other)));
    lines.dedup();
    List { lines, unnamed: unnamed.into_iter().collect() }
}

/// Part of a line by which lines are sorted: from the item's path on.
fn key(line: &str) -> &str {
    let from = line.rfind(" for superpipe").map_or(0, |at| at + 5);
    line[from..].find("superpipe").map_or(line, |at| &line[from + at..])
}

struct Lister<'a> {
    tree: &'a Crate,
    lines: Vec<String>,
    /// Public paths of exported types and traits, by where they are defined.
    exported: BTreeMap<Target, String>,
    /// Paths in the signature of each line, and the module in which it is written.
    uses: Vec<(String, Used)>,
}

struct Used {
    module: Name,
    paths: Vec<Name>,
}

impl Lister<'_> {
    fn module(&mut self, name: &Name, path: &str, prefix: &str) {
        let tree = self.tree;
        for item in &tree.modules[name].items {
            match item {
                Item::Mod(inside) if is_public(&inside.vis) => {
                    let full: Name = name.iter().cloned().chain([inside.ident.to_string()]).collect();
                    let prefix = prefix.to_owned() + &conditions(&inside.attrs);
                    self.lines.push(format!("{prefix}pub mod {path}::{}", inside.ident));
                    self.module(&full, &format!("{path}::{}", inside.ident), &prefix);
                }
                Item::Use(tree) if is_public(&tree.vis) => {
                    let prefix = prefix.to_owned() + &conditions(&tree.attrs);
                    for (known_as, leaf) in leaves(&tree.tree, Name::new()) {
                        self.reexport(name, path, &prefix, known_as, &leaf);
                    }
                }
                item => self.item(name, path, prefix, item, None),
            }
        }
    }

    fn reexport(
        &mut self,
        module: &Name,
        path: &str,
        prefix: &str,
        known_as: Option<String>,
        leaf: &[String],
    ) {
        let tree = self.tree;
        let target = tree.target(module, leaf);
        match (known_as, target) {
            (Some(known_as), Target::Item(home, ident)) => {
                let item = tree.modules[&home].item(&ident).expect("it was found");
                self.item(&home, path, prefix, item, Some(&known_as));
            }
            (Some(known_as), Target::Module(home)) => {
                self.module(&home, &format!("{path}::{known_as}"), prefix)
            }
            (Some(known_as), Target::Foreign(_, foreign)) => {
                self.lines.push(format!("{prefix}pub use {path}::{known_as}: {}", foreign.join("::")));
            }
            (None, Target::Module(home)) => self.module(&home, path, prefix),
            (None, other) => panic!("{other:?}: all of another crate is exported"),
        }
    }

    fn item(&mut self, module: &Name, path: &str, prefix: &str, item: &Item, known_as: Option<&str>) {
        let prefix = prefix.to_owned() + &conditions(attributes(item));
        let name =
            |ident: &syn::Ident| format!("{path}::{}", known_as.map_or(ident.to_string(), str::to_owned));
        match item {
            Item::Const(item) if is_public(&item.vis) => {
                let (ty, value) = (text::of(&item.ty), text::of(&item.expr));
                self.line(
                    module,
                    &*item.ty,
                    format!("{prefix}pub const {}: {ty} = {value}", name(&item.ident)),
                );
            }
            Item::Static(item) if is_public(&item.vis) => {
                let line = format!("{prefix}pub static {}: {}", name(&item.ident), text::of(&item.ty));
                self.line(module, &*item.ty, line);
            }
            Item::Fn(item) if is_public(&item.vis) => {
                let line = prefix + "pub " + &signature(&item.sig, &name(&item.sig.ident));
                self.signature(module, &item.sig, line);
            }
            Item::Type(item) if is_public(&item.vis) => {
                let name = name(&item.ident);
                self.exported.insert(Target::Item(module.clone(), item.ident.to_string()), name.clone());
                self.line(module, &*item.ty, format!("{prefix}pub type {name} = {}", text::of(&item.ty)));
            }
            Item::Struct(item) if is_public(&item.vis) => {
                let name = name(&item.ident);
                self.exported.insert(Target::Item(module.clone(), item.ident.to_string()), name.clone());
                let rest = if item.fields.iter().all(|field| is_public(&field.vis)) { "" } else { " { .. }" };
                let derived = prefix.clone() + &kept(&item.attrs);
                self.lines.push(format!("{derived}pub struct {name}{}{rest}", generics(&item.generics)));
                self.fields(module, &prefix, &name, &item.fields);
            }
            Item::Enum(item) if is_public(&item.vis) => {
                let name = name(&item.ident);
                self.exported.insert(Target::Item(module.clone(), item.ident.to_string()), name.clone());
                let derived = prefix.clone() + &kept(&item.attrs);
                self.lines.push(format!("{derived}pub enum {name}{}", generics(&item.generics)));
                for variant in &item.variants {
                    let prefix = prefix.clone() + &conditions(&variant.attrs);
                    let mut bare = variant.clone();
                    bare.attrs.clear();
                    if let Fields::Named(fields) = &mut bare.fields {
                        let named = core::mem::take(&mut fields.named);
                        fields.named = named.into_iter().filter(|field| !is_hidden(&field.attrs)).collect();
                    }
                    bare.fields.iter_mut().for_each(|field| field.attrs.clear());
                    self.line(module, &bare.fields, format!("{prefix}pub {name}::{}", text::of(&bare)));
                }
            }
            Item::Trait(item) if is_public(&item.vis) => {
                let name = name(&item.ident);
                self.exported.insert(Target::Item(module.clone(), item.ident.to_string()), name.clone());
                let (unsafety, generics, bounds) = (
                    item.unsafety.map_or("", |_| "unsafe "),
                    text::of(&item.generics),
                    where_clause(&item.generics),
                );
                let above = if item.supertraits.is_empty() {
                    String::new()
                } else {
                    format!(": {}", text::of(&item.supertraits))
                };
                self.lines.push(format!("{prefix}pub {unsafety}trait {name}{generics}{above}{bounds}"));
                for item in &item.items {
                    self.trait_item(module, &prefix, &name, item);
                }
            }
            Item::Macro(item) if is_exported(&item.attrs) => {
                let name = item.ident.as_ref().expect("a macro that is defined has a name");
                self.lines.push(format!("{prefix}pub macro {name}!"));
            }
            // A macro that makes items could make public ones. Those that make none are named here.
            Item::Macro(item) if item.ident.is_none() => {
                let called = text::of(&item.mac.path);
                let makes_none = ["std::thread_local", "compile_error"].contains(&called.as_str());
                assert!(makes_none, "{path}: the items of {called}! would be missing from the exported API");
            }
            _ => {}
        }
    }

    fn trait_item(&mut self, module: &Name, prefix: &str, name: &str, item: &TraitItem) {
        match item {
            TraitItem::Fn(item) => {
                let prefix = prefix.to_owned() + &conditions(&item.attrs);
                let provided = if item.default.is_some() { " { .. }" } else { "" };
                let line = signature(&item.sig, &format!("{name}::{}", item.sig.ident));
                self.signature(module, &item.sig, format!("{prefix}pub {line}{provided}"));
            }
            TraitItem::Const(item) => {
                let default = item
                    .default
                    .as_ref()
                    .map_or(String::new(), |(_, value)| format!(" = {}", text::of(value)));
                self.lines.push(format!(
                    "{prefix}pub const {name}::{}: {}{default}",
                    item.ident,
                    text::of(&item.ty)
                ));
            }
            TraitItem::Type(item) => {
                let bounds = if item.bounds.is_empty() {
                    String::new()
                } else {
                    format!(": {}", text::of(&item.bounds))
                };
                self.lines.push(format!(
                    "{prefix}pub type {name}::{}{}{bounds}",
                    item.ident,
                    text::of(&item.generics)
                ));
            }
            _ => {}
        }
    }

    fn fields(&mut self, module: &Name, prefix: &str, name: &str, fields: &Fields) {
        for (index, field) in fields.iter().enumerate().filter(|(_, field)| is_public(&field.vis)) {
            let prefix = prefix.to_owned() + &conditions(&field.attrs);
            let field_name = field.ident.as_ref().map_or(index.to_string(), ToString::to_string);
            self.line(
                module,
                &field.ty,
                format!("{prefix}pub {name}::{field_name}: {}", text::of(&field.ty)),
            );
        }
    }

    /// Lists what is implemented for exported types.
    fn impls(&mut self) {
        let tree = self.tree;
        for (module, item) in
            tree.modules.iter().flat_map(|(name, module)| module.items.iter().map(move |item| (name, item)))
        {
            let Item::Impl(block) = item else { continue };
            let prefix = conditions(&block.attrs);
            // What the methods of a block demand of its parameters.
            let bound = if text::of(&block.generics).contains(':') || block.generics.where_clause.is_some() {
                format!("impl{} ", generics(&block.generics))
            } else {
                String::new()
            };
            let exported = match &*block.self_ty {
                Type::Path(of) => self.exported.get(&tree.target(module, &names(&of.path))).cloned(),
                _ => None,
            };
            if let Some((implemented, _)) = &block.trait_ {
                self.implemented(module, block, implemented, exported.as_deref(), &prefix);
                continue;
            }
            let Some(name) = exported else { continue };
            for item in &block.items {
                match item {
                    ImplItem::Fn(item) if is_public(&item.vis) && !is_left_out(&item.attrs) => {
                        let line = signature(&item.sig, &format!("{name}::{}", item.sig.ident));
                        let line = format!("{prefix}{}{bound}pub {line}", conditions(&item.attrs));
                        self.signature(module, &item.sig, line);
                    }
                    ImplItem::Const(item) if is_public(&item.vis) && !is_left_out(&item.attrs) => {
                        let (ty, value) = (text::of(&item.ty), text::of(&item.expr));
                        self.line(
                            module,
                            &item.ty,
                            format!("{prefix}pub const {name}::{}: {ty} = {value}", item.ident),
                        );
                    }
                    _ => {}
                }
            }
        }
    }

    /// Lists a trait that is implemented for an exported type, or for another by what is exported.
    fn implemented(
        &mut self,
        module: &Name,
        block: &ItemImpl,
        implemented: &syn::Path,
        exported: Option<&str>,
        prefix: &str,
    ) {
        // A conversion from what is not exported is no part of the API.
        if implemented.is_ident("Drop") || self.names_private(module, implemented) {
            return;
        }
        let name = match exported {
            Some(name) => name.to_owned(),
            None if self.names_exported(module, implemented)
                || self.is_of_exported(module, &block.self_ty) =>
            {
                text::of(&block.self_ty)
            }
            None => return,
        };
        let parameters = text::of(&block.generics);
        let bounds = where_clause(&block.generics);
        let line = format!("{prefix}impl{parameters} {} for {name}{bounds}", text::of(implemented));
        for item in &block.items {
            if let ImplItem::Type(item) = item {
                self.line(module, &item.ty, format!("{line}: type {} = {}", item.ident, text::of(&item.ty)));
            }
        }
        self.lines.push(line);
    }

    fn names_exported(&self, module: &Name, path: &syn::Path) -> bool {
        let mut paths = Paths::default();
        paths.visit_path(path);
        paths.0[1..].iter().any(|path| self.exported.contains_key(&self.tree.target(module, path)))
    }

    /// Returns true for a reference to an exported type, a slice of it and the like.
    fn is_of_exported(&self, module: &Name, of: &Type) -> bool {
        let mut paths = Paths::default();
        paths.visit_type(of);
        paths.0.iter().any(|path| self.exported.contains_key(&self.tree.target(module, path)))
    }

    fn names_private(&self, module: &Name, path: &syn::Path) -> bool {
        let mut paths = Paths::default();
        paths.visit_path(path);
        paths.0.iter().any(|path| self.is_private(module, path))
    }

    fn is_private(&self, module: &Name, path: &[String]) -> bool {
        let target = self.tree.target(module, path);
        let Target::Item(home, ident) = &target else { return false };
        let item = self.tree.modules[home].item(ident);
        let is_type = matches!(item, Some(Item::Enum(_) | Item::Struct(_) | Item::Trait(_) | Item::Type(_)));
        is_type && !self.exported.contains_key(&target)
    }

    fn line<'a>(&mut self, module: &Name, of: impl Into<Signature<'a>>, line: String) {
        let mut paths = Paths::default();
        match of.into() {
            Signature::Type(ty) => paths.visit_type(ty),
            Signature::Fields(fields) => paths.visit_fields(fields),
        }
        self.uses.push((line.clone(), Used { module: module.clone(), paths: paths.0 }));
        self.lines.push(line);
    }

    fn signature(&mut self, module: &Name, of: &syn::Signature, line: String) {
        let mut paths = Paths::default();
        paths.visit_signature(of);
        self.uses.push((line.clone(), Used { module: module.clone(), paths: paths.0 }));
        self.lines.push(line);
    }

    fn unnamed(&self, line: &str, used: &Used) -> Option<String> {
        let unnamed = used.paths.iter().find(|path| self.is_private(&used.module, path))?;
        Some(format!("{}: {line}", unnamed.join("::")))
    }
}

enum Signature<'a> {
    Type(&'a Type),
    Fields(&'a Fields),
}

impl<'a> From<&'a Type> for Signature<'a> {
    fn from(ty: &'a Type) -> Self {
        Self::Type(ty)
    }
}

impl<'a> From<&'a Fields> for Signature<'a> {
    fn from(fields: &'a Fields) -> Self {
        Self::Fields(fields)
    }
}

#[derive(Default)]
struct Paths(Vec<Name>);

impl Visit<'_> for Paths {
    fn visit_path(&mut self, path: &syn::Path) {
        self.0.push(names(path));
        visit::visit_path(self, path);
    }
}

/// A signature with the full path of its function in place of the name.
fn signature(signature: &syn::Signature, name: &str) -> String {
    let text = text::of(signature);
    let ident = format!("fn {}", signature.ident);
    text.replacen(&ident, &format!("fn {name}"), 1)
}

/// Parameters of an item with their bounds.
fn generics(generics: &syn::Generics) -> String {
    text::of(generics) + &where_clause(generics)
}

fn where_clause(generics: &syn::Generics) -> String {
    generics
        .where_clause
        .as_ref()
        .map_or(String::new(), |bounds| format!(" {}", text::of(bounds).trim_end_matches(',')))
}

fn is_exported(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("macro_export"))
}

/// Features under which an item is there.
fn conditions(attributes: &[Attribute]) -> String {
    let texts = attributes.iter().map(text::of);
    texts.filter(|text| text.starts_with("#[cfg(")).map(|text| text + " ").collect()
}

/// Attributes that users see.
fn kept(attributes: &[Attribute]) -> String {
    let texts = attributes.iter().map(text::of);
    texts
        .filter(|text| {
            ["#[derive(", "#[non_exhaustive", "#[must_use"].iter().any(|kept| text.starts_with(kept))
        })
        .map(|text| text + " ")
        .collect()
}

/// Returns true for what is not part of a release: tests, and what only the workspace's own programs use.
pub(crate) fn is_left_out(attributes: &[Attribute]) -> bool {
    let is_internal = |attribute| text::of(attribute) == "#[cfg(feature = \"internals\")]";
    is_for_tests(attributes) || attributes.iter().any(is_internal)
}

const fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| text::of(attribute) == "#[doc(hidden)]")
}
