//! The macros behind the table of driver entries in `driver.rs`.
//!
//! Purpose: each entry is written once; from it come the traits of the groups, the flat methods of
//! `dyn Driver`, the forwarding of [`DriverLayer`](crate::DriverLayer), the closures of
//! [`Overrides`](crate::Overrides), [`Entry`](crate::Entry) and [`DdiCall`](crate::DdiCall).
//!
//! An entry is its documentation, `Name "PublishedName"`, then the signature. `argument: Type =>
//! Record` gives the recorded form of an argument that borrows memory.

/// Methods of a trait, without bodies.
macro_rules! declare_entries {
    ($(
        $(#[$meta:meta])*
        $Entry:ident $name:literal
        fn $f:ident(&self, $level:ident: $Level:ty $(, $arg:ident: $ty:ty $(=> $rec:ty)?)*)
        $(-> $ret:ty)?;
    )*) => {$(
        $(#[$meta])*
        #[doc(alias = $name)]
        fn $f(&self, $level: $Level $(, $arg: $ty)*) $(-> $ret)?;
    )*};
}

/// Methods of `dyn Driver` that call a group, and refuse where the driver lacks it.
macro_rules! reach_entries {
    ($accessor:ident $Trait:ident; $(
        $(#[$meta:meta])*
        $Entry:ident $name:literal
        fn $f:ident(&self, $level:ident: $Level:ty $(, $arg:ident: $ty:ty $(=> $rec:ty)?)*)
        $(-> $ret:ty)?;
    )*) => {$(
        #[doc = concat!("[`", stringify!($Trait), "::", stringify!($f), "`].")]
        #[doc(alias = $name)]
        pub fn $f(&self, $level: $Level $(, $arg: $ty)*) $(-> $ret)? {
            match self.$accessor() {
                Some(group) => group.$f($level $(, $arg)*),
                None => crate::refusal::Refusal::refused(crate::Status::NOT_SUPPORTED),
            }
        }
    )*};
}

/// Methods of a layer that pass a call on.
macro_rules! forward_entries {
    ($Trait:ident; $(
        $(#[$meta:meta])*
        $Entry:ident $name:literal
        fn $f:ident(&self, $level:ident: $Level:ty $(, $arg:ident: $ty:ty $(=> $rec:ty)?)*)
        $(-> $ret:ty)?;
    )*) => {$(
        #[doc = concat!("See [`", stringify!($Trait), "::", stringify!($f), "`].")]
        fn $f(&self, $level: $Level $(, $arg: $ty)*) $(-> $ret)? {
            self.inner().$f($level $(, $arg)*)
        }
    )*};
}

/// Methods of a driver that is a layer: `before`, the layer's method, `after`.
macro_rules! enter_entries {
    ($(
        $(#[$meta:meta])*
        $Entry:ident $name:literal
        fn $f:ident(&self, $level:ident: $Level:ty $(, $arg:ident: $ty:ty $(=> $rec:ty)?)*)
        $(-> $ret:ty)?;
    )*) => {$(
        fn $f(&self, $level: $Level $(, $arg: $ty)*) $(-> $ret)? {
            let call = || DdiCall::$Entry { $($arg: crate::record::Record::record(&$arg)),* };
            match DriverLayer::before(self, Entry::$Entry, &call) {
                Ok(()) => {
                    let result = DriverLayer::$f(self, $level $(, $arg)*);
                    let status = crate::refusal::Refusal::status(&result);
                    DriverLayer::after(self, Entry::$Entry, status);
                    result
                }
                Err(status) => crate::refusal::Refusal::refused(status),
            }
        }
    )*};
}

/// The entries of one group.
macro_rules! list_entries {
    ($(
        $(#[$meta:meta])*
        $Entry:ident $name:literal
        fn $f:ident(&self, $level:ident: $Level:ty $(, $arg:ident: $ty:ty $(=> $rec:ty)?)*)
        $(-> $ret:ty)?;
    )*) => { &[$(Entry::$Entry),*] };
}

/// The recorded form of an argument.
macro_rules! recorded {
    ($ty:ty) => {
        $ty
    };
    ($ty:ty, $rec:ty) => {
        $rec
    };
}

/// [`Entry`](crate::Entry) and [`DdiCall`](crate::DdiCall).
macro_rules! number_entries {
    ($(
        $(#[$meta:meta])*
        $Entry:ident $name:literal
        fn $f:ident(&self, $level:ident: $Level:ty $(, $arg:ident: $ty:ty $(=> $rec:ty)?)*)
        $(-> $ret:ty)?;
    )*) => {
        /// An entry of a driver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Entry {$(
            #[doc = $name]
            $Entry,
        )*}

        impl Entry {
            /// Returns the name, without the prefix of published names.
            pub fn name(self) -> &'static str {
                match self { $(Entry::$Entry => stringify!($Entry)),* }
            }

            /// Returns the published name; the method's name for an entry that is not published.
            pub fn published_name(self) -> &'static str {
                match self { $(Entry::$Entry => $name),* }
            }
        }

        /// One call of an entry, with the arguments.
        #[derive(Clone, Debug)]
        pub enum DdiCall {$(
            #[doc = $name]
            $Entry {$(
                #[doc = concat!("Argument `", stringify!($arg), "`.")]
                $arg: recorded!($ty $(, $rec)?),
            )*},
        )*}

        impl DdiCall {
            /// Returns which entry was called.
            pub fn entry(&self) -> Entry {
                match self { $(DdiCall::$Entry { .. } => Entry::$Entry),* }
            }
        }
    };
}

/// [`Overrides`](crate::Overrides).
macro_rules! override_entries {
    ($(
        $(#[$meta:meta])*
        $Entry:ident $name:literal
        fn $f:ident(&self, $level:ident: $Level:ty $(, $arg:ident: $ty:ty $(=> $rec:ty)?)*)
        $(-> $ret:ty)?;
    )*) => {
        /// A driver layer made of closures: the method of an entry takes what is called in its
        /// place, with the driver behind the layer as first argument. Every other call is passed
        /// on.
        #[derive(Default)]
        pub struct Overrides {
            inner: Option<Arc<dyn Driver>>,
            ddi_version: Option<DdiVersion>,
            hidden: Vec<EntryGroup>,
            $($f: Option<
                Box<dyn Fn(&dyn Driver, $Level $(, $ty)*) $(-> $ret)? + Send + Sync>
            >,)*
        }

        #[allow(clippy::type_complexity, reason = "the types are those of the entries")]
        impl Overrides {
            /// Declares this version of the contract.
            pub fn ddi_version(self, version: DdiVersion) -> Overrides {
                Overrides { ddi_version: Some(version), ..self }
            }

            /// Hides a group of entries.
            pub fn hides(mut self, group: EntryGroup) -> Overrides {
                self.hidden.push(group);
                self
            }

            /// Returns the layer in front of `inner`.
            pub fn before(self, inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
                Arc::new(Overrides { inner: Some(inner), ..self })
            }

            $(
                #[doc = concat!("Calls `call` in place of ", $name, ".")]
                pub fn $f(
                    self,
                    call: impl Fn(&dyn Driver, $Level $(, $ty)*) $(-> $ret)? + Send + Sync + 'static,
                ) -> Overrides {
                    Overrides { $f: Some(Box::new(call)), ..self }
                }
            )*
        }

        impl DriverLayer for Overrides {
            fn inner(&self) -> &dyn Driver {
                self.inner.as_deref().expect("overrides are called in front of a driver")
            }

            fn hides(&self, group: EntryGroup) -> bool {
                self.hidden.contains(&group)
            }

            fn ddi_version(&self) -> DdiVersion {
                self.ddi_version.unwrap_or_else(|| DriverLayer::inner(self).ddi_version())
            }

            $(
                fn $f(&self, $level: $Level $(, $arg: $ty)*) $(-> $ret)? {
                    let inner = DriverLayer::inner(self);
                    match &self.$f {
                        Some(call) => call(inner, $level $(, $arg)*),
                        None => inner.$f($level $(, $arg)*),
                    }
                }
            )*
        }
    };
}

/// The table: the trait [`Driver`](crate::Driver), then the groups.
macro_rules! ddi_table {
    (
        $(#[$driver_meta:meta])*
        trait Driver { $($base:tt)* }
        $(
            $(#[$group_meta:meta])*
            trait $Trait:ident = $Group:ident, fn $accessor:ident, $since:ident, $feature:expr;
            { $($entries:tt)* }
        )*
    ) => {
        $(#[$driver_meta])*
        pub trait Driver: Send + Sync {
            /// Returns the version of the contract that the driver is written for. Entries of a
            /// later version are never called.
            #[doc(alias = "DRIVER_INITIALIZATION_DATA")]
            fn ddi_version(&self) -> DdiVersion;

            declare_entries! { $($base)* }

            $(
                #[doc = concat!("Returns the entries of [`", stringify!($Trait),
                    "`]; `None` from a driver without them.")]
                fn $accessor(&self) -> Option<&dyn $Trait> {
                    None
                }
            )*
        }

        $(
            $(#[$group_meta])*
            pub trait $Trait: Send + Sync {
                declare_entries! { $($entries)* }
            }
        )*

        /// A group of entries: a driver has all of them or none.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EntryGroup {$(
            #[doc = concat!("[`", stringify!($Trait), "`]")]
            $Group,
        )*}

        impl EntryGroup {
            /// All groups.
            pub const ALL: &[EntryGroup] = &[$(EntryGroup::$Group),*];

            /// Returns the first version of the contract that has the group.
            pub fn since(self) -> DdiVersion {
                match self { $(EntryGroup::$Group => DdiVersion::$since),* }
            }

            /// Returns the feature that the group belongs to.
            pub fn feature(self) -> Option<FeatureId> {
                match self { $(EntryGroup::$Group => $feature),* }
            }

            /// Returns the group's entries.
            pub fn entries(self) -> &'static [Entry] {
                match self { $(EntryGroup::$Group => list_entries! { $($entries)* }),* }
            }
        }

        /// The entries of all groups, as methods of the driver. Where the driver lacks the group, a
        /// call that can fail fails with NOT_SUPPORTED; any other does nothing and returns the
        /// default.
        impl dyn Driver + '_ {
            /// Whether the driver has a group.
            pub fn has(&self, group: EntryGroup) -> bool {
                match group { $(EntryGroup::$Group => self.$accessor().is_some()),* }
            }

            $( reach_entries! { $accessor $Trait; $($entries)* } )*
        }

        number_entries! { $($base)* $($($entries)*)* }

        override_entries! { $($base)* $($($entries)*)* }

        /// A driver in front of another driver. Calls are passed on; a layer overrides methods.
        pub trait DriverLayer: Send + Sync {
            /// Returns the driver behind the layer.
            fn inner(&self) -> &dyn Driver;

            /// Runs at the beginning of each call, even if the layer has a method for it. `call`
            /// creates the record of the call. An error ends the call: the result is the error, or
            /// the default for an entry without a status.
            fn before(&self, entry: Entry, call: &dyn Fn() -> DdiCall) -> Result<(), Status> {
                let _ = (entry, call);
                Ok(())
            }

            /// Runs at the end of each call that `before` has let pass. `status` is what the entry
            /// returned; `None` for an entry without a status.
            fn after(&self, entry: Entry, status: Option<Status>) {
                let _ = (entry, status);
            }

            /// Whether the layer hides a group that the driver behind it may have.
            fn hides(&self, group: EntryGroup) -> bool {
                let _ = group;
                false
            }

            /// See [`Driver::ddi_version`].
            fn ddi_version(&self) -> DdiVersion {
                self.inner().ddi_version()
            }

            forward_entries! { Driver; $($base)* }

            $( forward_entries! { $Trait; $($entries)* } )*
        }

        impl<T: DriverLayer> Driver for T {
            fn ddi_version(&self) -> DdiVersion {
                DriverLayer::ddi_version(self)
            }

            enter_entries! { $($base)* }

            $(
                fn $accessor(&self) -> Option<&dyn $Trait> {
                    if DriverLayer::hides(self, EntryGroup::$Group) {
                        return None;
                    }
                    self.inner().$accessor().map(|_| self as &dyn $Trait)
                }
            )*
        }

        $(
            impl<T: DriverLayer> $Trait for T {
                enter_entries! { $($entries)* }
            }
        )*
    };
}

/// A trait of callbacks and the layer that passes each call on.
macro_rules! callback_table {
    (
        $(#[$trait_meta:meta])*
        trait $Trait:ident, $Layer:ident {$(
            $(#[$meta:meta])*
            $name:literal
            fn $f:ident(&self, $level:ident: $Level:ty $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)?;
        )*}
    ) => {
        $(#[$trait_meta])*
        pub trait $Trait: Send + Sync {$(
            $(#[$meta])*
            #[doc(alias = $name)]
            fn $f(&self, $level: $Level $(, $arg: $ty)*) $(-> $ret)?;
        )*}

        #[doc = concat!("[`", stringify!($Trait), "`] in front of others: each call is passed on, ")]
        /// unless the layer overrides the method.
        pub trait $Layer: Send + Sync {
            /// Returns the callbacks behind the layer.
            fn inner(&self) -> &dyn $Trait;

            $(
                #[doc = concat!("See [`", stringify!($Trait), "::", stringify!($f), "`].")]
                fn $f(&self, $level: $Level $(, $arg: $ty)*) $(-> $ret)? {
                    self.inner().$f($level $(, $arg)*)
                }
            )*
        }

        impl<T: $Layer> $Trait for T {$(
            fn $f(&self, $level: $Level $(, $arg: $ty)*) $(-> $ret)? {
                $Layer::$f(self, $level $(, $arg)*)
            }
        )*}
    };
}

pub(crate) use {callback_table, ddi_table, declare_entries, enter_entries, forward_entries};
pub(crate) use {list_entries, number_entries, override_entries, reach_entries, recorded};
