//! The law of imports inside a crate: no circle between files, and none between rooms.
//!
//! An arrow goes from a file to the file that defines a name which it uses; re-exports are
//! followed. A room is a file or folder of one folder, with everything inside it. Tests and the
//! crate's root file draw no arrows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

use crate::finding::Finding;
use crate::tree;

/// Segments of a module's path inside its crate.
type Module = Vec<String>;

/// Checks the sources of every crate.
///
/// # Errors
/// A source cannot be read.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let mut crates: BTreeMap<PathBuf, BTreeMap<PathBuf, String>> = BTreeMap::new();
    for folder in ["crates", "fuzz", "xtask"] {
        for file in tree::files(root, folder, &["rs"])? {
            let parts: Vec<_> = file.path.iter().collect();
            if let Some(src) = parts.iter().position(|part| *part == "src") {
                let (package, inside) =
                    (parts[..src].iter().collect(), parts[src + 1..].iter().collect());
                crates.entry(package).or_default().insert(inside, file.text);
            }
        }
    }
    let mut findings = Vec::new();
    for (package, files) in &crates {
        for circle in circles(files).map_err(|e| format!("{}: {e}", package.display()))? {
            findings.push(Finding::of_file(&package.join("src"), circle));
        }
    }
    Ok(findings)
}

/// The circles of one crate, each in one line.
fn circles(files: &BTreeMap<PathBuf, String>) -> Result<Vec<String>, String> {
    let arrows = arrows(files)?;
    let mut found = Vec::new();
    let describe = |kind: &str, members: &[PathBuf], arrows: &Arrows| {
        let inside =
            |(from, to): &(&PathBuf, &PathBuf)| members.contains(from) && members.contains(to);
        let arrows = arrows.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
        let drawn: Vec<String> = arrows
            .filter(inside)
            .map(|(from, to)| format!("{} -> {}", from.display(), to.display()))
            .collect();
        format!("a circle of {} {kind}: {}", members.len(), drawn.join(", "))
    };
    for members in components(&arrows) {
        found.push(describe("files", &members, &arrows));
    }
    let folders: BTreeSet<PathBuf> =
        files.keys().filter_map(|f| Some(f.parent()?.into())).collect();
    for folder in folders {
        let rooms = rooms(&arrows, &folder);
        for members in components(&rooms).into_iter().filter(|m| m.iter().any(|m| !is_file(m))) {
            found.push(describe("rooms", &members, &rooms));
        }
    }
    Ok(found)
}

type Arrows = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

fn is_file(path: &Path) -> bool {
    path.extension().is_some()
}

/// The arrows between the rooms of `folder`.
fn rooms(arrows: &Arrows, folder: &Path) -> Arrows {
    let room = |file: &PathBuf| {
        let first = file.strip_prefix(folder).ok()?.components().next()?;
        let room = folder.join(first);
        // A file beside a folder of the same name is of that room.
        let stem = room.with_extension("");
        let is_folder = arrows.keys().any(|f| f.starts_with(&stem) && f != &room);
        Some(if is_file(&room) && is_folder { stem } else { room })
    };
    let mut lifted = Arrows::new();
    for (from, to) in arrows {
        let Some(from) = room(from) else { continue };
        let to = to.iter().filter_map(&room).filter(|to| *to != from);
        lifted.entry(from.clone()).or_default().extend(to);
    }
    lifted
}

/// The strongly connected components of more than one member.
fn components(arrows: &Arrows) -> Vec<Vec<PathBuf>> {
    let reach = |from: &PathBuf| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(at) = left.pop() {
            for to in arrows.get(&at).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    left.push(to.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&PathBuf, BTreeSet<PathBuf>> =
        arrows.keys().map(|file| (file, reach(file))).collect();
    let mut found: BTreeSet<Vec<PathBuf>> = BTreeSet::new();
    for (file, ahead) in &reached {
        let back = |other: &&PathBuf| reached.get(*other).is_some_and(|r| r.contains(*file));
        let members: Vec<PathBuf> = ahead.iter().filter(back).cloned().collect();
        if members.len() > 1 {
            found.insert(members);
        }
    }
    found.into_iter().collect()
}

fn arrows(files: &BTreeMap<PathBuf, String>) -> Result<Arrows, String> {
    let mut parsed = BTreeMap::new();
    for (path, text) in files {
        let file = syn::parse_file(text).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut names = Names { module: module_of(path), ..Names::default() };
        names.visit_file(&file);
        parsed.insert(module_of(path), (path, names));
    }
    let exports: BTreeMap<&Module, &Names> =
        parsed.iter().map(|(module, (_, names))| (module, names)).collect();
    let tests: Vec<&Module> = parsed.values().flat_map(|(_, names)| &names.tests).collect();
    let mut arrows = Arrows::new();
    for (module, (path, names)) in &parsed {
        let is_root = module.is_empty() || tests.iter().any(|test| module.starts_with(test));
        let to = names.used.iter().filter_map(|name| defined_in(&exports, name, 0));
        let to = to.filter(|to| !to.is_empty() && to != module).map(|to| parsed[&to].0.clone());
        let to: BTreeSet<PathBuf> = if is_root { BTreeSet::new() } else { to.collect() };
        arrows.insert((*path).clone(), to);
    }
    Ok(arrows)
}

/// The module that defines what this absolute path names; `None` outside the crate.
fn defined_in(files: &BTreeMap<&Module, &Names>, name: &[String], hops: usize) -> Option<Module> {
    let deepest = (0..=name.len()).rev().find(|n| files.contains_key(&name[..*n].to_vec()))?;
    let module = name[..deepest].to_vec();
    let next = name.get(deepest).and_then(|next| files[&module].exports.get(next));
    match next {
        Some(target) if hops < 8 => {
            let target = [target, &name[deepest + 1..]].concat();
            defined_in(files, &target, hops + 1).or(Some(module))
        }
        _ => Some(module),
    }
}

fn module_of(path: &Path) -> Module {
    let parts = path.with_extension("");
    let parts = parts.iter().map(|part| part.to_string_lossy().into_owned());
    parts.filter(|part| !matches!(&**part, "mod" | "lib" | "main")).collect()
}

/// The paths that a file names, as absolute paths in its crate.
#[derive(Default)]
struct Names {
    module: Module,
    /// How many inline modules enclose the item that is visited.
    depth: usize,
    used: BTreeSet<Vec<String>>,
    exports: BTreeMap<String, Vec<String>>,
    children: BTreeSet<String>,
    /// Modules of files that are compiled for tests only.
    tests: Vec<Module>,
}

impl Names {
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let mut base = self.module.clone();
        let mut rest = path;
        let mut depth = self.depth;
        match rest.first()?.as_str() {
            "crate" => return Some(rest[1..].to_vec()),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|s| s == "super") {
                    rest = &rest[1..];
                    if depth > 0 { depth -= 1 } else { _ = base.pop() }
                }
            }
            child if self.children.contains(child) => {}
            _ => return None,
        }
        Some([base.as_slice(), rest].concat())
    }

    fn tree(&mut self, tree: &syn::UseTree, before: &[String], exported: bool) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&path.tree, &with(&path.ident), exported),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(tree, before, exported))
            }
            syn::UseTree::Glob(_) => self.name(before, None, exported),
            syn::UseTree::Name(name) if name.ident == "self" => {
                self.name(before, before.last().cloned(), exported)
            }
            syn::UseTree::Name(name) => {
                self.name(&with(&name.ident), Some(name.ident.to_string()), exported)
            }
            syn::UseTree::Rename(name) => {
                self.name(&with(&name.ident), Some(name.rename.to_string()), exported)
            }
        }
    }

    fn name(&mut self, path: &[String], name: Option<String>, exported: bool) {
        let Some(path) = self.absolute(path) else { return };
        match name {
            Some(name) if exported => _ = self.exports.insert(name, path),
            _ => _ = self.used.insert(path),
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    let test = |a: &syn::Attribute| matches!(&a.meta, syn::Meta::List(l) if l.path.is_ident("cfg") && l.tokens.to_string().contains("test"));
    attributes.iter().any(test)
}

impl<'ast> Visit<'ast> for Names {
    fn visit_file(&mut self, file: &'ast syn::File) {
        for item in &file.items {
            if let syn::Item::Mod(module) = item
                && module.content.is_none()
            {
                let name = module.ident.to_string();
                if is_test(&module.attrs) {
                    self.tests.push([self.module.as_slice(), std::slice::from_ref(&name)].concat());
                }
                self.children.insert(name);
            }
        }
        visit::visit_file(self, file);
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.depth += usize::from(module.content.is_some());
        visit::visit_item_mod(self, module);
        self.depth -= usize::from(module.content.is_some());
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let exported = !matches!(item.vis, syn::Visibility::Inherited) && self.depth == 0;
        self.tree(&item.tree, &[], exported);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if segments.len() > 1
            && let Some(path) = self.absolute(&segments)
        {
            self.used.insert(path);
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| (path.into(), (*text).to_owned())).collect();
        circles(&files).unwrap()
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let both =
            [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "use super::a;")];
        assert_eq!(found(&both), ["a circle of 2 files: a.rs -> b.rs, b.rs -> a.rs"]);
        let one_way = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "")];
        assert!(found(&one_way).is_empty());
    }

    #[test]
    fn rooms_may_be_a_circle_where_no_files_are() {
        let rooms = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod x; mod y;"),
            ("a/x.rs", "use crate::b::v;"),
            ("a/y.rs", ""),
            ("b/mod.rs", "mod u; mod v;"),
            ("b/u.rs", "fn f() { crate::a::y::g() }"),
            ("b/v.rs", ""),
        ];
        assert_eq!(found(&rooms), ["a circle of 2 rooms: a -> b, b -> a"]);
    }

    #[test]
    fn a_reexport_is_followed_and_tests_draw_no_arrows() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod x; mod y; pub use x::X; use crate::b::B;"),
            ("a/x.rs", "#[cfg(test)] mod tests { use super::super::y::Y; }"),
            ("a/y.rs", "use super::X;"),
            ("b.rs", "#[cfg(test)] mod tests; use crate::a::y::Y;"),
            ("b/tests.rs", "use super::*;"),
        ];
        assert_eq!(found(&files), ["a circle of 2 rooms: a -> b, b -> a"]);
    }
}
