//! Engines, and tables with a value for each engine of an adapter.

use std::fmt;
use std::ops::{Index, IndexMut};

/// An engine: a node of a physical adapter. Engines are ordered by physical adapter, then by node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineId {
    /// EngineOrdinal: the physical adapter; 0 where there is only one.
    pub engine_ordinal: u32,
    /// NodeOrdinal.
    pub node_ordinal: u32,
}

impl EngineId {
    /// Returns the engine of a node of physical adapter 0.
    pub const fn of_node(node_ordinal: u32) -> EngineId {
        EngineId { engine_ordinal: 0, node_ordinal }
    }

    /// Returns all engines of an adapter in order.
    pub fn all(nodes: u32, physical_adapters: u32) -> impl Iterator<Item = EngineId> + Clone {
        (0..physical_adapters).flat_map(move |engine_ordinal| {
            (0..nodes).map(move |node_ordinal| EngineId { engine_ordinal, node_ordinal })
        })
    }

    /// Returns the position in that order; `None` for an engine that the adapter lacks.
    pub fn number(self, nodes: u32, physical_adapters: u32) -> Option<u32> {
        let exists = self.node_ordinal < nodes && self.engine_ordinal < physical_adapters;
        exists.then(|| self.engine_ordinal * nodes + self.node_ordinal)
    }
}

impl fmt::Display for EngineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.node_ordinal)?;
        match self.engine_ordinal {
            0 => Ok(()),
            other => write!(f, " of physical adapter {other}"),
        }
    }
}

/// A table with a value for each engine of an adapter. Indexing panics for an engine that the
/// adapter lacks; [`EngineMap::get`] returns `None` for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineMap<T> {
    nodes: u32,
    values: Vec<T>,
}

impl<T> EngineMap<T> {
    /// Creates the table for an adapter with these many nodes on each physical adapter.
    pub fn new(
        nodes: u32,
        physical_adapters: u32,
        value: impl FnMut(EngineId) -> T,
    ) -> EngineMap<T> {
        EngineMap { nodes, values: EngineId::all(nodes, physical_adapters).map(value).collect() }
    }

    /// Creates the table as [`EngineMap::new`] does, up to the first value that fails.
    ///
    /// # Errors
    /// That of the value.
    pub fn try_new<E>(
        nodes: u32,
        physical_adapters: u32,
        value: impl FnMut(EngineId) -> Result<T, E>,
    ) -> Result<EngineMap<T>, E> {
        let values =
            EngineId::all(nodes, physical_adapters).map(value).collect::<Result<_, _>>()?;
        Ok(EngineMap { nodes, values })
    }

    /// Returns the value of an engine; `None` for an engine that the adapter lacks.
    pub fn get(&self, engine: EngineId) -> Option<&T> {
        self.values.get(self.position(engine)?)
    }

    /// Returns the value of an engine for change; `None` for an engine that the adapter lacks.
    pub fn get_mut(&mut self, engine: EngineId) -> Option<&mut T> {
        let position = self.position(engine)?;
        self.values.get_mut(position)
    }

    /// Returns all engines in order.
    pub fn engines(&self) -> impl Iterator<Item = EngineId> + Clone + use<T> {
        EngineId::all(self.nodes, self.physical_adapters())
    }

    /// Returns all engines with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (EngineId, &T)> {
        self.engines().zip(&self.values)
    }

    /// Returns the values in the order of the engines.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }

    /// Returns all engines with their values for change, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (EngineId, &mut T)> {
        self.engines().zip(&mut self.values)
    }

    fn physical_adapters(&self) -> u32 {
        self.values.len() as u32 / self.nodes.max(1)
    }

    fn position(&self, engine: EngineId) -> Option<usize> {
        engine.number(self.nodes, self.physical_adapters()).map(|number| number as usize)
    }
}

impl<T> Index<EngineId> for EngineMap<T> {
    type Output = T;

    fn index(&self, engine: EngineId) -> &T {
        self.get(engine).unwrap_or_else(|| panic!("no engine {engine} on this adapter"))
    }
}

impl<T> IndexMut<EngineId> for EngineMap<T> {
    fn index_mut(&mut self, engine: EngineId) -> &mut T {
        self.get_mut(engine).unwrap_or_else(|| panic!("no engine {engine} on this adapter"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_value_for_each_engine_in_order() {
        let mut table = EngineMap::new(3, 2, |engine| (engine.engine_ordinal, engine.node_ordinal));
        let order = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)];
        assert!(table.iter().map(|(_, value)| *value).eq(order));
        assert!(table.engines().is_sorted());
        let engine = EngineId { engine_ordinal: 1, node_ordinal: 2 };
        table[engine] = (7, 7);
        assert_eq!((table[engine], table.iter_mut().count()), ((7, 7), 6));
        for (engine_ordinal, node_ordinal) in [(0, 3), (2, 0)] {
            assert_eq!(table.get(EngineId { engine_ordinal, node_ordinal }), None);
        }
        assert_eq!(EngineMap::new(0, 1, |_| ()).get(engine), None);
    }
}
