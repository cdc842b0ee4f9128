//! Names of shared fences: one namespace for the adapters of a machine, as the object manager has.
//!
//! Invariant: a name is taken as long as a handle exists that was created with it or opened by it.
//! Names differ by case. The prefixes `Global\` and `Local\` name the one session of the machine,
//! and have no effect.

use super::instance::FenceHold;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tidegate_calls::{Status, SyncObjectAccess};
use tidegate_platform::{Mutex, Platform};

/// The names of a machine's shared objects. Each clone is the same namespace.
#[derive(Clone)]
pub struct ObjectNames(Arc<Mutex<BTreeMap<String, Weak<NamedFence>>>>);

/// The named object of the handles with one name.
pub(crate) struct NamedFence {
    names: ObjectNames,
    name: String,
    pub(super) hold: FenceHold,
    /// The rights of the handle that was created with the name.
    pub(super) access: SyncObjectAccess,
}

impl ObjectNames {
    /// An empty namespace.
    pub fn new(platform: &Platform) -> ObjectNames {
        ObjectNames(Arc::new(platform.mutex("names of shared objects", BTreeMap::new())))
    }

    /// Gives a fence a name.
    ///
    /// # Errors
    /// OBJECT_NAME_INVALID, OBJECT_NAME_COLLISION.
    pub(super) fn add(
        &self,
        name: &str,
        hold: FenceHold,
        access: SyncObjectAccess,
    ) -> Result<Arc<NamedFence>, Status> {
        let name = base_name(name)?.to_owned();
        let named = NamedFence { names: self.clone(), name: name.clone(), hold, access };
        let named = Arc::new(named);
        let mut names = self.0.lock();
        if names.get(&name).is_some_and(|taken| taken.strong_count() > 0) {
            drop(names);
            return Err(Status::OBJECT_NAME_COLLISION);
        }
        names.insert(name, Arc::downgrade(&named));
        Ok(named)
    }

    /// Returns the object of a name.
    ///
    /// # Errors
    /// OBJECT_NAME_INVALID, OBJECT_NAME_NOT_FOUND.
    pub(super) fn find(&self, name: &str) -> Result<Arc<NamedFence>, Status> {
        let name = base_name(name)?;
        let found = self.0.lock().get(name).and_then(Weak::upgrade);
        found.ok_or(Status::OBJECT_NAME_NOT_FOUND)
    }
}

/// The name without the prefix of a session.
fn base_name(name: &str) -> Result<&str, Status> {
    let prefixes = ["Global\\", "Local\\"];
    let base = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    match base.is_empty() || base.contains('\\') {
        true => Err(Status::OBJECT_NAME_INVALID),
        false => Ok(base),
    }
}

impl Drop for NamedFence {
    fn drop(&mut self) {
        let mut names = self.names.0.lock();
        // The name may be another object's by now.
        if names.get(&self.name).is_some_and(|named| named.strong_count() == 0) {
            names.remove(&self.name);
        }
    }
}
