//! Where the code under a requirement's tag can be switched off, as edits of the source text.
//!
//! The node under a tag is the first item, statement, arm or field that begins on or below the
//! tag's line. Each way to disable or invert the node, or a comparison or literal inside it, is one
//! [`Switch`]: text that is inserted at byte offsets and that tests the switch's number when the
//! program runs. A switch that does not compile is left out later, so this room does not need to
//! know types.

use std::cmp::Reverse;
use std::ops::Range;

use crate::source::Source;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, BinOp, Block, Expr, FieldValue, Lit, Pat, ReturnType, Stmt, Type};

/// Most switches inside one node, after the switches of the node itself.
const MOST_INSIDE: usize = 12;

/// Types of std whose `new()` is their default.
const EMPTY_WHEN_NEW: [&str; 8] =
    ["BTreeMap", "BTreeSet", "BinaryHeap", "HashMap", "HashSet", "String", "Vec", "VecDeque"];

/// The call that a switch makes; the driver adds this function to each crate.
pub const CALL: &str = "crate::mutant_is_on";

/// Text that goes in front of the byte at `at`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insertion {
    pub at: usize,
    pub text: String,
}

/// One way to disable or invert the code under a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The line of the code that it changes, counted from 1.
    pub line: usize,
    /// What it does, for people.
    pub what: &'static str,
    /// `NUMBER` stands for the number of the switch.
    pub insertions: Vec<Insertion>,
}

/// A file as the search reads it.
pub struct Parsed {
    text: String,
    syntax: syn::File,
    source: Source,
}

impl Parsed {
    /// Parses the text.
    ///
    /// # Errors
    /// What the parser says about a file that is not Rust.
    pub fn of(text: String) -> Result<Self, String> {
        let syntax =
            syn::parse_file(&text).map_err(|e| format!("line {}: {e}", e.span().start().line))?;
        let source = Source::of(&text);
        Ok(Self { text, syntax, source })
    }

    /// The switches of the code under the tag on `line` (counted from 1), the most telling first.
    pub fn below(&self, line: usize) -> Vec<Switch> {
        let mut search = Search { text: &self.text, line, best: None };
        search.visit_file(&self.syntax);
        let first = self.first_code_line(line);
        search.best.filter(|node| node.line == first).map_or_else(Vec::new, |node| node.switches)
    }

    /// The lines of code that belong to no test, counted from 1.
    pub fn product_lines(&self) -> impl Iterator<Item = usize> {
        let lines = self.source.lines.iter().enumerate();
        lines
            .filter(|(at, line)| line.has_code() && !self.source.is_test(*at))
            .map(|(at, _)| at + 1)
    }

    /// The first line on or below `line` that holds more than comments and attributes.
    fn first_code_line(&self, line: usize) -> usize {
        let lines = &self.source.lines;
        let code = |at: &usize| {
            lines[at - 1].has_code() && !lines[at - 1].code.trim_start().starts_with("#[")
        };
        (line..=lines.len()).find(code).unwrap_or(line)
    }
}

struct Node {
    line: usize,
    switches: Vec<Switch>,
}

/// Looks for the node that begins first on or below `line`; of those that begin together, the
/// outermost.
struct Search<'t> {
    text: &'t str,
    line: usize,
    best: Option<Node>,
}

impl Search<'_> {
    fn offer(&mut self, line: usize, switches: impl FnOnce() -> Vec<Switch>) {
        if line >= self.line && self.best.as_ref().is_none_or(|best| line < best.line) {
            self.best = Some(Node { line, switches: switches() });
        }
    }
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        let text = self.text;
        self.offer(node.sig.span().start().line, || {
            with_inside(text, of_function(&node.sig.output, &node.block), |i| {
                i.visit_block(&node.block)
            })
        });
        visit::visit_item_fn(self, node);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        let text = self.text;
        self.offer(node.sig.span().start().line, || {
            with_inside(text, of_function(&node.sig.output, &node.block), |i| {
                i.visit_block(&node.block)
            })
        });
        visit::visit_impl_item_fn(self, node);
    }

    fn visit_item_const(&mut self, node: &'ast syn::ItemConst) {
        self.offer(node.const_token.span().start().line, Vec::new);
    }

    fn visit_item_struct(&mut self, node: &'ast syn::ItemStruct) {
        self.offer(node.struct_token.span().start().line, Vec::new);
    }

    fn visit_item_enum(&mut self, node: &'ast syn::ItemEnum) {
        self.offer(node.enum_token.span().start().line, Vec::new);
        visit::visit_item_enum(self, node);
    }

    fn visit_variant(&mut self, node: &'ast syn::Variant) {
        self.offer(node.ident.span().start().line, Vec::new);
    }

    fn visit_field(&mut self, node: &'ast syn::Field) {
        self.offer(node.span().start().line, Vec::new);
    }

    fn visit_block(&mut self, node: &'ast Block) {
        let text = self.text;
        for (at, statement) in node.stmts.iter().enumerate() {
            let is_last = at + 1 == node.stmts.len();
            self.offer(line(statement), || {
                with_inside(text, of_statement(statement, is_last), |i| i.visit_stmt(statement))
            });
        }
        visit::visit_block(self, node);
    }

    fn visit_expr_match(&mut self, node: &'ast syn::ExprMatch) {
        let text = self.text;
        // Without an arm for the rest, no arm can be left out.
        let has_rest = node.arms.last().is_some_and(|arm| match &arm.pat {
            Pat::Wild(_) => true,
            Pat::Ident(name) => is_binding(name),
            _ => false,
        });
        for arm in &node.arms {
            self.offer(line(&arm.pat), || {
                let whole = if has_rest { of_arm(arm) } else { default_instead(&arm.body) };
                with_inside(text, whole, |i| i.visit_arm(arm))
            });
        }
        visit::visit_expr_match(self, node);
    }

    fn visit_field_value(&mut self, node: &'ast FieldValue) {
        let text = self.text;
        self.offer(node.span().start().line, || {
            let whole = match node.colon_token {
                Some(_) => default_instead(&node.expr),
                None => Vec::new(),
            };
            with_inside(text, whole, |i| i.visit_expr(&node.expr))
        });
        visit::visit_field_value(self, node);
    }
}

fn bytes(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

fn line(node: &impl Spanned) -> usize {
    node.span().start().line
}

fn insertion(at: usize, text: impl Into<String>) -> Insertion {
    Insertion { at, text: text.into() }
}

/// A function returns at once; or one of its statements is switched.
fn of_function(output: &ReturnType, block: &Block) -> Vec<Switch> {
    let start = block.brace_token.span.open().byte_range().end;
    let at_once = |value: &str, what| Switch {
        line: line(block),
        what,
        insertions: vec![insertion(start, format!(" if {CALL}(NUMBER) {{ return {value}; }}"))],
    };
    let mut switches = match output {
        ReturnType::Default => vec![at_once("", "the function returns at once")],
        ReturnType::Type(_, result) => match name_of(result).as_deref() {
            Some("bool") => {
                vec![
                    at_once("true", "the function returns true"),
                    at_once("false", "the function returns false"),
                ]
            }
            Some("Result") => {
                vec![at_once("Ok(Default::default())", "the function returns Ok at once")]
            }
            _ => vec![at_once("Default::default()", "the function returns its default at once")],
        },
    };
    switches.extend(of_block(block));
    switches
}

fn of_block(block: &Block) -> impl Iterator<Item = Switch> {
    let last = block.stmts.len().saturating_sub(1);
    block.stmts.iter().enumerate().flat_map(move |(at, s)| of_statement(s, at == last))
}

fn name_of(result: &Type) -> Option<String> {
    match result {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

/// The switches of a statement. The last one of a block may be the value of the block.
fn of_statement(statement: &Stmt, is_last: bool) -> Vec<Switch> {
    match statement {
        Stmt::Local(local) => match &local.init {
            Some(init) if init.diverge.is_none() => default_instead(&init.expr),
            _ => Vec::new(),
        },
        Stmt::Expr(expression, semicolon) => {
            let mut switches = of_condition(expression);
            let is_unit = semicolon.is_some()
                || match expression {
                    Expr::ForLoop(_) | Expr::While(_) => true,
                    Expr::If(branch) if branch.else_branch.is_none() => true,
                    _ => !is_last,
                };
            match is_unit {
                true => switches.push(skipped(statement)),
                false => switches.extend(default_instead(expression)),
            }
            switches.extend(nested(expression));
            switches
        }
        Stmt::Macro(_) => vec![skipped(statement)],
        Stmt::Item(_) => Vec::new(),
    }
}

fn skipped(statement: &Stmt) -> Switch {
    let whole = bytes(statement);
    let what = "the statement is skipped";
    let insertions =
        vec![insertion(whole.start, format!("if !{CALL}(NUMBER) {{ ")), insertion(whole.end, " }")];
    Switch { line: line(statement), what, insertions }
}

/// No switch where the expression is written as a default: the change would have no effect.
fn default_instead(expression: &Expr) -> Vec<Switch> {
    if is_default(expression) {
        return Vec::new();
    }
    vec![instead(expression, "the value is replaced by its default", "Default::default()")]
}

fn is_default(expression: &Expr) -> bool {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_digits() == "0",
            Lit::Bool(value) => !value.value,
            Lit::Float(number) => number.base10_parse::<f64>().is_ok_and(|value| value == 0.0),
            Lit::Str(text) => text.value().is_empty(),
            _ => false,
        },
        Expr::Path(path) => path.path.is_ident("None"),
        Expr::Tuple(tuple) => tuple.elems.iter().all(is_default),
        Expr::Array(array) => array.elems.iter().all(is_default),
        Expr::Repeat(repeat) => is_default(&repeat.expr),
        Expr::Block(inner) => inner.block.stmts.is_empty(),
        Expr::Call(call) if call.args.is_empty() => match &*call.func {
            Expr::Path(path) => {
                let words: Vec<_> =
                    path.path.segments.iter().map(|s| s.ident.to_string()).collect();
                match &words[..] {
                    [.., last] if last == "default" => true,
                    [.., of, last] if last == "new" => EMPTY_WHEN_NEW.contains(&of.as_str()),
                    _ => false,
                }
            }
            _ => false,
        },
        Expr::Macro(made) => made.mac.path.is_ident("vec") && made.mac.tokens.is_empty(),
        _ => false,
    }
}

/// Another value in place of an expression. Inside a block the braces stay where they are: behind
/// an arm that is a block there is no comma.
fn instead(expression: &Expr, what: &'static str, value: &str) -> Switch {
    let whole = bytes(expression);
    let choice = format!("if {CALL}(NUMBER) {{ {value} }} else {{ ");
    let insertions = match expression {
        Expr::Block(inner) if inner.label.is_none() => {
            vec![insertion(whole.start + 1, choice), insertion(whole.end - 1, " }")]
        }
        _ => vec![insertion(whole.start, format!("({choice}")), insertion(whole.end, " })")],
    };
    Switch { line: line(expression), what, insertions }
}

/// The condition of an `if` or `while` is inverted; one with `let` is made false.
fn of_condition(expression: &Expr) -> Vec<Switch> {
    let condition = match expression {
        Expr::If(branch) => &branch.cond,
        Expr::While(repeat) => &repeat.cond,
        _ => return Vec::new(),
    };
    let range = bytes(condition);
    let insertions = if has_let(condition) {
        vec![insertion(range.start, format!("!{CALL}(NUMBER) && "))]
    } else {
        vec![insertion(range.start, "("), insertion(range.end, format!(") != {CALL}(NUMBER)"))]
    };
    let what =
        if insertions.len() == 1 { "the condition is false" } else { "the condition is inverted" };
    vec![Switch { line: line(condition), what, insertions }]
}

fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        _ => false,
    }
}

/// An arm does not match: the next one that does is taken.
fn of_arm(arm: &Arm) -> Vec<Switch> {
    let body = default_instead(&arm.body);
    let mut switches = Vec::new();
    if !matches!(arm.pat, Pat::Wild(_)) {
        let what = "the arm does not match";
        let insertions = match &arm.pat {
            Pat::Guard(guarded) => {
                let guard = bytes(&guarded.guard);
                vec![
                    insertion(guard.start, format!("!{CALL}(NUMBER) && (")),
                    insertion(guard.end, ")"),
                ]
            }
            pattern => vec![insertion(bytes(pattern).end, format!(" if !{CALL}(NUMBER)"))],
        };
        switches.push(Switch { line: line(&arm.pat), what, insertions });
    }
    switches.extend(body);
    switches
}

/// Appends the switches of the conditions, comparisons and literals that `visit` comes to.
fn with_inside(
    text: &str,
    mut whole: Vec<Switch>,
    visit: impl FnOnce(&mut Inside<'_>),
) -> Vec<Switch> {
    let mut inside = Inside { text, switches: Vec::new() };
    visit(&mut inside);
    inside.switches.truncate(MOST_INSIDE);
    inside.switches.retain(|switch| !whole.contains(switch));
    whole.append(&mut inside.switches);
    whole
}

/// The switches of conditions, comparisons, arms and literals.
struct Inside<'t> {
    text: &'t str,
    switches: Vec<Switch>,
}

impl Inside<'_> {
    fn offer(&mut self, expression: &Expr, what: &'static str, value: &str) {
        self.switches.push(instead(expression, what, value));
    }

    fn offer_inverted(&mut self, expression: &Expr, what: &'static str) {
        let range = bytes(expression);
        let insertions = vec![
            insertion(range.start, "(("),
            insertion(range.end, format!(") != {CALL}(NUMBER))")),
        ];
        let line = line(expression);
        self.switches.push(Switch { line, what, insertions });
    }
}

impl<'ast> Visit<'ast> for Inside<'_> {
    fn visit_item(&mut self, _: &'ast syn::Item) {}

    // What the compiler must know has no switch: sizes in types, and lengths of arrays.
    fn visit_type(&mut self, _: &'ast Type) {}

    fn visit_angle_bracketed_generic_arguments(
        &mut self,
        _: &'ast syn::AngleBracketedGenericArguments,
    ) {
    }

    fn visit_expr_repeat(&mut self, node: &'ast syn::ExprRepeat) {
        self.visit_expr(&node.expr);
    }

    fn visit_expr(&mut self, node: &'ast Expr) {
        match node {
            Expr::If(_) | Expr::While(_) => self.switches.extend(of_condition(node)),
            Expr::Match(choice) => {
                for pair in choice.arms.windows(2).filter(|pair| !binds(&pair[1].pat)) {
                    let other = &self.text[bytes(&*pair[1].body)];
                    self.offer(&pair[0].body, "the arm has the value of the next one", other);
                }
            }
            Expr::Binary(both) => match both.op {
                BinOp::Eq(_)
                | BinOp::Ne(_)
                | BinOp::Lt(_)
                | BinOp::Le(_)
                | BinOp::Gt(_)
                | BinOp::Ge(_) => {
                    self.offer_inverted(node, "the comparison is inverted");
                }
                // A chain with `let` has no value. Its condition has a switch of its own.
                BinOp::And(_) | BinOp::Or(_) if !has_let(node) => {
                    self.offer_inverted(node, "the outcome is inverted");
                }
                _ => {}
            },
            Expr::Lit(literal) => match &literal.lit {
                Lit::Bool(value) => {
                    self.offer(node, "the literal is inverted", &(!value.value).to_string());
                }
                Lit::Int(value) => {
                    let text = value.to_string();
                    self.offer(node, "the literal is one more", &format!("{text} + 1"));
                }
                _ => {}
            },
            _ => {}
        }
        visit::visit_expr(self, node);
    }
}

/// The first statements inside a branch.
fn nested(expression: &Expr) -> Vec<Switch> {
    let block = match expression {
        Expr::If(branch) => &branch.then_branch,
        Expr::ForLoop(repeat) => &repeat.body,
        Expr::While(repeat) => &repeat.body,
        Expr::Loop(repeat) => &repeat.body,
        _ => return Vec::new(),
    };
    of_block(block).collect()
}

/// Whether a pattern that is one identifier takes the value, and is not a constant or variant.
fn is_binding(name: &syn::PatIdent) -> bool {
    name.subpat.is_some() || name.ident.to_string().starts_with(|c: char| !c.is_uppercase())
}

/// Whether the pattern names parts of the value, which another arm does not know.
fn binds(pattern: &Pat) -> bool {
    struct Names(bool);
    impl<'ast> Visit<'ast> for Names {
        fn visit_pat_ident(&mut self, node: &'ast syn::PatIdent) {
            self.0 |= is_binding(node);
            visit::visit_pat_ident(self, node);
        }
    }
    let mut names = Names(false);
    names.visit_pat(pattern);
    names.0
}

/// A piece of text that a switch put into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planted {
    pub number: u32,
    /// Bytes of the text with all switches.
    pub at: Range<usize>,
}

/// Where an insertion goes among the insertions of other switches; the fields are compared in this
/// order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    at: usize,
    opens: bool,
    /// Openings: the one around more text comes first. Closings: the one around less text comes
    /// first.
    nesting: Reverse<usize>,
    order: i64,
}

fn opening((start, end): (usize, usize), order: i64) -> Place {
    // The end shows how much text is around, since the openings that are compared are at one place.
    Place { at: start, opens: true, nesting: Reverse(end), order }
}

fn closing((start, end): (usize, usize), order: i64) -> Place {
    Place { at: end, opens: false, nesting: Reverse(start), order: -order }
}

/// Applies numbered switches to a text; returns the text and where each piece of the switches lies
/// in it. Switches around the same code nest: what opens last closes first.
pub fn plant(text: &str, switches: &[(u32, &Switch)]) -> (String, Vec<Planted>) {
    let mut all: Vec<(Place, u32, String)> = Vec::new();
    for (order, (number, switch)) in (0..).zip(switches) {
        let ends = (switch.insertions[0].at, switch.insertions[switch.insertions.len() - 1].at);
        for (nth, inserted) in switch.insertions.iter().enumerate() {
            let place = if nth == 0 { opening(ends, order) } else { closing(ends, order) };
            all.push((place, *number, inserted.text.replace("NUMBER", &number.to_string())));
        }
    }
    all.sort_by_key(|(place, ..)| *place);
    let mut with_switches = String::with_capacity(text.len());
    let mut planted = Vec::with_capacity(all.len());
    let mut from = 0;
    for (Place { at, .. }, number, inserted) in all {
        with_switches.push_str(&text[from..at]);
        let start = with_switches.len();
        with_switches.push_str(&inserted);
        planted.push(Planted { number, at: start..with_switches.len() });
        from = at;
    }
    with_switches.push_str(&text[from..]);
    (with_switches, planted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(text: &str, line: usize) -> Result<Vec<Switch>, String> {
        Ok(Parsed::of(text.to_owned())?.below(line))
    }

    fn planted(text: &str, line: usize) -> Vec<String> {
        let switches = below(text, line).unwrap();
        switches.iter().map(|s| plant(text, &[(7, s)]).0.replace(CALL, "on")).collect()
    }

    #[test]
    fn functions_return_at_once() {
        let all = planted("// spec: NF-001\nfn a() -> bool { b() }", 1);
        assert_eq!(all[0], "// spec: NF-001\nfn a() -> bool { if on(7) { return true; } b() }");
        assert_eq!(all[1], "// spec: NF-001\nfn a() -> bool { if on(7) { return false; } b() }");
        assert!(
            planted("fn a() -> Result<u8, E> { b() }", 1)[0]
                .contains("return Ok(Default::default());")
        );
        assert!(
            planted("impl A { fn a(&self) { b(); } }", 1)[0]
                .contains("{ if on(7) { return ; } b(); }")
        );
    }

    #[test]
    fn conditions_are_inverted_and_statements_skipped() {
        let text = "fn a() {\n    // spec: NF-001\n    if x == 1 {\n        b();\n    }\n}";
        let all = planted(text, 2);
        assert!(all[0].contains("if (x == 1) != on(7) {"), "{}", all[0]);
        assert!(all[1].contains("if !on(7) { if x == 1 {"), "{}", all[1]);
        let text =
            "fn a() {\n    // spec: NF-001\n    if let Some(x) = y {\n        b();\n    }\n}";
        assert!(planted(text, 2)[0].contains("if !on(7) && let Some(x) = y {"));
        let text = "fn a() {\n    // spec: NF-001\n    b()?;\n    c();\n}";
        assert_eq!(
            planted(text, 2),
            ["fn a() {\n    // spec: NF-001\n    if !on(7) { b()?; }\n    c();\n}"]
        );
    }

    #[test]
    fn arms_values_and_fields_are_replaced() {
        let text = "fn a() {\n    match x {\n        // spec: NF-001\n        1 => 5,\n        _ => 6,\n    }\n}";
        assert!(planted(text, 3)[0].contains("1 if !on(7) => 5"));
        let text = "fn a() {\n    // spec: NF-001\n    let x = b();\n}";
        assert!(
            planted(text, 2)[0].contains("let x = (if on(7) { Default::default() } else { b() });")
        );
        let text = "fn a() {\n    A {\n        // spec: NF-001\n        x: b(),\n    }\n}";
        assert!(planted(text, 3)[0].contains("x: (if on(7) { Default::default() } else { b() }),"));
    }

    #[test]
    fn comparisons_and_literals_inside_are_changed() {
        let text = "fn a() {\n    // spec: NF-001\n    let x = b(y < 3, false);\n}";
        let all = planted(text, 2);
        assert!(all[1].contains("b(((y < 3) != on(7)), false)"), "{}", all[1]);
        assert!(all[2].contains("b(y < (if on(7) { 3 + 1 } else { 3 }), false)"), "{}", all[2]);
        assert!(all[3].contains("(if on(7) { true } else { false })"), "{}", all[3]);
    }

    #[test]
    fn an_arm_takes_the_value_of_the_next_one() {
        let all = planted(
            "// spec: NF-001\nfn a(x: A) -> B {\n    match x {\n        C => D,\n        E => F,\n    }\n}",
            1,
        );
        assert!(
            all.iter().any(|text| text.contains("C => (if on(7) { F } else { D }),")),
            "{all:?}"
        );
    }

    #[test]
    fn a_block_keeps_its_braces_and_other_arms_bind_nothing() {
        let text = "fn a() {\n    match x {\n        // spec: NF-001\n        C => { d() }\n        E(f) => f,\n        None => 1,\n    }\n}";
        let all = planted(text, 3);
        assert_eq!(all.len(), 1, "no arm for the rest, and `f` is of the next arm: {all:?}");
        assert!(
            all[0].contains("C => {if on(7) { Default::default() } else {  d()  }}\n"),
            "{all:?}"
        );
    }

    #[test]
    fn a_value_is_not_skipped_and_constants_stay() {
        let text =
            "fn a() -> u8 {\n    // spec: NF-001\n    if b { c } else { [0; 4][d as usize] }\n}";
        let all = planted(text, 2);
        assert!(
            all.iter().all(|text| !text.contains("if !on(7)") && text.contains("; 4]")),
            "{all:?}"
        );
        assert!(all[1].contains("(if on(7) { Default::default() } else { if b"), "{all:?}");
    }

    #[test]
    fn a_default_is_not_replaced_by_a_default() {
        let written = ["None", "0", "false", "(\"\", Vec::new())", "A::default()", "{}", "vec![]"];
        for value in written.into_iter().chain(["0.0", "[0.0f32; 3]", "[0, 0]", "VecDeque::new()"])
        {
            let text = format!("fn a() {{\n    let x = {value};\n}}");
            let all = planted(&text, 2);
            assert!(all.iter().all(|text| !text.contains("Default::default()")), "{all:?}");
        }
        assert!(planted("fn a() {\n    let x = (0, 1);\n}", 2)[0].contains("Default::default()"));
    }

    #[test]
    fn what_has_no_behaviour_has_no_switch() {
        assert!(below("// spec: NF-001\nconst A: u8 = 1;", 1).unwrap().is_empty());
        assert!(below("// spec: NF-001\nstruct A { x: u8 }", 1).unwrap().is_empty());
        let data = "layouts! {\n    // spec: NF-001\n    A = 5;\n}\nfn b() { c(); }";
        assert!(below(data, 2).unwrap().is_empty());
        assert!(
            !below("// spec: NF-001\n/// Words.\n#[inline]\nfn b() { c(); }", 1)
                .unwrap()
                .is_empty()
        );
        assert!(below("fn {", 1).is_err());
    }

    #[test]
    fn switches_around_the_same_code_nest() {
        let text = "fn a() {\n    let x = y == z;\n}";
        let all = below(text, 2).unwrap();
        let (planted, places) = plant(text, &(1..).zip(&all).collect::<Vec<_>>());
        syn::parse_file(&planted).unwrap();
        let value = "(if on(1) { Default::default() } else { ((y == z) != on(2)) });";
        assert!(planted.replace(CALL, "on").contains(value), "{planted}");
        assert_eq!(places.len(), 4);
    }

    #[test]
    fn several_switches_share_a_text() {
        let text = "fn a() {\n    b();\n    c();\n}";
        let (first, second) = (below(text, 2).unwrap(), below(text, 3).unwrap());
        let all = plant(text, &[(1, &first[0]), (2, &second[0])]).0.replace(CALL, "on");
        assert_eq!(all, "fn a() {\n    if !on(1) { b(); }\n    if !on(2) { c(); }\n}");
    }
}
