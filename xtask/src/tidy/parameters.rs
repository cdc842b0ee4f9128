//! The law of parameters: a function takes at most [`MOST`], and a tuple counts as many as it
//! holds. Clippy counts a tuple once, so tuples would hide arguments from its lint.
//!
//! Methods of a trait's implementation are free: their signature is the trait's.

use crate::finding::Finding;
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{FnArg, Pat, Signature};

/// The limit of clippy's `too_many_arguments`.
const MOST: usize = 7;

/// Checks one file of product code or tests.
pub fn check(path: &Path, text: &str) -> Vec<Finding> {
    // Few files have a tuple among parameters, and the parser is slow.
    if !text.contains("): (") {
        return Vec::new();
    }
    let Ok(file) = syn::parse_file(text) else { return Vec::new() };
    let mut search = Search { path, findings: Vec::new() };
    search.visit_file(&file);
    search.findings
}

struct Search<'p> {
    path: &'p Path,
    findings: Vec<Finding>,
}

impl Search<'_> {
    fn judge(&mut self, signature: &Signature) {
        let counts = signature.inputs.iter().map(|argument| match argument {
            FnArg::Typed(typed) => members(&typed.pat),
            FnArg::Receiver(_) => 1,
        });
        let count: usize = counts.sum();
        if count > MOST && count > signature.inputs.len() {
            let what = format!(
                "`{}` takes {count} values, tuples taken apart ({MOST} are allowed): give a tuple a \
                 struct with names",
                signature.ident
            );
            let line = signature.span().start().line;
            self.findings.push(Finding::at(self.path, line.saturating_sub(1), what));
        }
    }
}

fn members(pattern: &Pat) -> usize {
    match pattern {
        Pat::Tuple(tuple) => tuple.elems.iter().map(members).sum(),
        _ => 1,
    }
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.judge(&node.sig);
        visit::visit_item_fn(self, node);
    }

    fn visit_item_impl(&mut self, node: &'ast syn::ItemImpl) {
        let methods = node.items.iter().filter_map(|item| match item {
            syn::ImplItem::Fn(method) if node.trait_.is_none() => Some(&method.sig),
            _ => None,
        });
        methods.for_each(|signature| self.judge(signature));
        visit::visit_item_impl(self, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        check(Path::new("crates/kmd/src/ring.rs"), text).len()
    }

    #[test]
    fn a_tuple_counts_as_many_parameters_as_it_holds() {
        let tuples = "(a, (b, c)): (u8, (u8, u8)), (d, e): (u8, u8), (f, g): (u8, u8)";
        assert_eq!(found(&format!("fn free({tuples}) {{}}")), 0, "seven");
        assert_eq!(found(&format!("fn free({tuples}, h: u8) {{}}")), 1);
        assert_eq!(found(&format!("impl A {{ fn own(&self, {tuples}) {{}} }}")), 1);
        assert_eq!(found(&format!("impl B for A {{ fn own(&self, {tuples}) {{}} }}")), 0);
    }
}
