//! Names and global handles of shared objects: one namespace for the adapters of a machine, as the
//! object manager has.
//!
//! Invariant: a name is taken as long as a handle exists that was created with it or opened by it.
//! Names differ by case. The prefixes `Global\` and `Local\` name the one session of the machine,
//! and have no effect. A global handle names its object while that lives, and keeps nothing alive.

use super::instance::FenceHold;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tidegate_calls::{Handle, HandleTable, Status, SyncObjectAccess};
use tidegate_platform::{Mutex, Platform};

/// The names of a machine's shared objects. Each clone is the same namespace.
#[derive(Clone)]
pub struct ObjectNames(Arc<Namespace>);

struct Namespace {
    names: Mutex<BTreeMap<String, Weak<NamedFence>>>,
    globals: Mutex<HandleTable<Weak<dyn Any + Send + Sync>>>,
}

/// The low six bits of a global handle, which are 0 in the handles of a process.
const GLOBAL: u32 = 2;
const LOW_BITS: u32 = 0x3F;

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
        ObjectNames(Arc::new(Namespace {
            names: platform.mutex("names of shared objects", BTreeMap::new()),
            globals: platform.mutex("global handles", HandleTable::new()),
        }))
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
        let mut names = self.0.names.lock();
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
        let found = self.0.names.lock().get(name).and_then(Weak::upgrade);
        found.ok_or(Status::OBJECT_NAME_NOT_FOUND)
    }

    /// Gives an object a global handle; `None` if there are too many.
    pub(crate) fn enter_global(&self, object: Weak<dyn Any + Send + Sync>) -> Option<u32> {
        self.0.globals.lock().insert(object).ok().map(|handle| handle.0 | GLOBAL)
    }

    /// Returns the object of a global handle, if it lives and is of this type.
    pub(crate) fn find_global<T: Any + Send + Sync>(&self, handle: u32) -> Option<Arc<T>> {
        let local = Handle(handle & !LOW_BITS);
        let is_global = handle & LOW_BITS == GLOBAL;
        let found = is_global.then(|| self.0.globals.lock().get(local)).flatten();
        found?.upgrade()?.downcast().ok()
    }

    /// Forgets a global handle. Its object ends.
    pub(crate) fn remove_global(&self, handle: u32) {
        self.0.globals.lock().remove(Handle(handle & !LOW_BITS));
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
        let mut names = self.names.0.names.lock();
        // The name may be another object's by now.
        if names.get(&self.name).is_some_and(|named| named.strong_count() == 0) {
            names.remove(&self.name);
        }
    }
}
