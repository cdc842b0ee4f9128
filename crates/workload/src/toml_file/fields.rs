//! Fields of one table, read with the names that are visible there.

use super::names::{Groups, Symbols, Variables};
use super::reader::{Section, Value};
use crate::expression::{Constants, Expr};
use crate::model::{BufferRef, FenceRef, GroupMember, QueueRef, Ref};

/// A table and its scope. A method that returns no value has reported the mistake.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    pub section: &'a Section<'a, 'a>,
    pub symbols: &'a Symbols<'a>,
    pub variables: &'a Variables,
}

impl Fields<'_> {
    /// A value that is a number or an expression in quotes.
    pub fn value(&self, value: &Value<'_>) -> Option<Expr> {
        self.symbols.expr_of(value, self.variables)
    }

    /// An optional field that is an expression.
    pub fn expr(&self, key: &'static str) -> Option<Expr> {
        self.value(self.section.get(key)?)
    }

    /// A required field that is an expression.
    pub fn need_expr(&self, key: &'static str) -> Option<Expr> {
        self.value(self.section.need(key)?)
    }

    /// An expression; `other` where the field is left out.
    pub fn expr_or(&self, key: &'static str, other: i128) -> Option<Expr> {
        match self.section.get(key) {
            Some(value) => self.value(value),
            None => Some(Expr::number(other)),
        }
    }

    fn reference<I: GroupMember>(
        &self,
        key: &'static str,
        groups: &Groups<I>,
        kind: &str,
    ) -> Option<Ref<I>> {
        self.symbols.reference(self.section.need(key)?, groups, kind, self.variables)
    }

    /// A required field that names a fence.
    pub fn fence(&self, key: &'static str) -> Option<FenceRef> {
        self.reference(key, &self.symbols.fences, "fence")
    }

    /// A required field that names a buffer.
    pub fn buffer(&self, key: &'static str) -> Option<BufferRef> {
        self.reference(key, &self.symbols.buffers, "buffer")
    }

    /// A required field that names a queue.
    pub fn queue(&self, key: &'static str) -> Option<QueueRef> {
        self.reference(key, &self.symbols.queues, "queue")
    }

    /// A field that is an array of constant words.
    pub fn words(&self, key: &'static str) -> Option<Vec<u32>> {
        let mut words = Vec::new();
        for value in self.section.array(key)? {
            match self.symbols.expr_of(value, &Variables::default())?.evaluate_u32(&Constants) {
                Ok(word) => words.push(word),
                Err(error) => {
                    self.section.reader.problem(value.span().start, error.to_string());
                    return None;
                }
            }
        }
        Some(words)
    }
}
