//! Names and global handles of shared objects: one namespace for the adapters of a machine, as the
//! object manager has.
//!
//! Invariant: a name is taken as long as a handle exists that was created with it or opened by it.
//! Names do not differ by letter case, as on Windows (Wine's dlls/win32u/tests/d3dkmt.c). The
//! prefixes `Global\` and `Local\` name the one session of the machine,
//! and have no effect. A global handle names its object while that lives, and keeps nothing alive.
//!
//! Entry points: [`ObjectNames::share`], [`ObjectNames::open`], [`ObjectNames::enter_global`].

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tidegate_calls::{Handle, HandleTable, NtHandle, Status, SyncObjectAccess};
use tidegate_platform::{Mutex, Platform};

/// The names of a machine's shared objects. Each clone is the same namespace.
#[derive(Clone)]
pub struct ObjectNames(Arc<Namespace>);

struct Namespace {
    names: Mutex<BTreeMap<String, Weak<NamedShare>>>,
    globals: Mutex<HandleTable<Weak<dyn Any + Send + Sync>>>,
}

/// The low six bits of a global handle, which are 0 in the handles of a process.
const GLOBAL: u32 = 2;
const LOW_BITS: u32 = 0x3F;

/// An object that NT handles share.
pub(crate) trait Shareable: Send + Sync {
    /// Returns what a handle with these rights holds.
    fn hold(&self, access: SyncObjectAccess) -> Box<dyn Any + Send + Sync>;
}

/// Which of the two calls opens an object by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShareKind {
    /// A fence or an older object.
    SyncObject,
    /// A resource.
    Resource,
}

/// What one call shares.
pub(crate) struct Share {
    pub(crate) kind: ShareKind,
    /// Objects of different types.
    pub(crate) objects: Vec<Box<dyn Shareable>>,
    pub(crate) access: SyncObjectAccess,
}

impl Share {
    fn handle(&self, access: SyncObjectAccess, name: Option<Arc<NamedShare>>) -> NtHandle {
        let name = name.map(|name| -> Arc<dyn Any + Send + Sync> { name });
        NtHandle::of(self.objects.iter().map(|object| object.hold(access)).collect(), name)
    }
}

/// The named object of the handles with one name.
struct NamedShare {
    names: ObjectNames,
    /// The key of the table.
    name: String,
    /// With the rights of the handle that was created with the name.
    share: Share,
}

impl ObjectNames {
    /// An empty namespace.
    pub fn new(platform: &Platform) -> ObjectNames {
        ObjectNames(Arc::new(Namespace {
            names: platform.mutex("names of shared objects", BTreeMap::new()),
            globals: platform.mutex("global handles", HandleTable::new()),
        }))
    }

    /// Creates an NT handle, with a name if one is given.
    ///
    /// # Errors
    /// OBJECT_NAME_INVALID, OBJECT_NAME_COLLISION.
    pub(crate) fn share(&self, share: Share, name: Option<&str>) -> Result<NtHandle, Status> {
        let Some(name) = name else { return Ok(share.handle(share.access, None)) };
        let name = key(name)?;
        let named = NamedShare { names: self.clone(), name: name.clone(), share };
        let named = Arc::new(named);
        let mut names = self.0.names.lock();
        if names.get(&name).is_some_and(|taken| taken.strong_count() > 0) {
            drop(names);
            return Err(Status::OBJECT_NAME_COLLISION);
        }
        names.insert(name, Arc::downgrade(&named));
        drop(names);
        Ok(named.share.handle(named.share.access, Some(named.clone())))
    }

    /// Returns another NT handle of the object with this name.
    ///
    /// # Errors
    /// OBJECT_NAME_INVALID, OBJECT_NAME_NOT_FOUND; OBJECT_TYPE_MISMATCH for the name of another
    /// kind; ACCESS_DENIED for no rights, and for rights that were not granted with the name.
    pub(crate) fn open(
        &self,
        name: &str,
        kind: ShareKind,
        access: SyncObjectAccess,
    ) -> Result<NtHandle, Status> {
        let name = key(name)?;
        let found = self.0.names.lock().get(&name).and_then(Weak::upgrade);
        let named = found.ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        if named.share.kind != kind {
            return Err(Status::OBJECT_TYPE_MISMATCH);
        }
        let granted = match kind {
            ShareKind::SyncObject => named.share.access,
            // Rights do not restrict memory.
            ShareKind::Resource => SyncObjectAccess::all(),
        };
        if access.is_empty() || !granted.contains(access) {
            return Err(Status::ACCESS_DENIED);
        }
        Ok(named.share.handle(access, Some(named.clone())))
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

/// The key of a name: without the prefix of a session, in one letter case.
fn key(name: &str) -> Result<String, Status> {
    let name: String = name.chars().flat_map(char::to_uppercase).collect();
    let prefixes = ["GLOBAL\\", "LOCAL\\"];
    let base = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(&name);
    match base.is_empty() || base.contains('\\') {
        true => Err(Status::OBJECT_NAME_INVALID),
        false => Ok(base.to_owned()),
    }
}

impl Drop for NamedShare {
    fn drop(&mut self) {
        let mut names = self.names.0.names.lock();
        // The name may be another object's by now.
        if names.get(&self.name).is_some_and(|named| named.strong_count() == 0) {
            names.remove(&self.name);
        }
    }
}
