//! Structures, constants and sizes of the public WDDM headers, as they are in memory on x86-64.
//!
//! - One module per header: [`d3dukmdt`] (user mode and kernel mode), [`d3dkmthk`] (the D3DKMT
//!   calls), [`d3dkmddi`] (kernel and driver: fences, queues, doorbells), [`miniport`] (kernel and
//!   driver: start, packets, paging, recovery).
//! - Handles, enumerations and flags are plain integers, so every bit pattern is a valid value.
//!   A pointer is a 64-bit address that no code here follows.
//! - `public!` structures are compared with the public bindings when the tests are compiled.
//!   `published!` structures have no binding or a stale one. They state size and offsets.

/// Defines C structures that the public bindings have: the bindings' name of the structure, then
/// each field as the bindings' name, our name and type.
macro_rules! public {
    ($($(#[$meta:meta])* $name:ident = $theirs:ident {
        $($(#[$field_meta:meta])* $their_field:ident $field:ident: $type:ty,)+
    })+) => {$(
        $(#[$meta])*
        #[doc = concat!("\n\n`", stringify!($theirs), "`")]
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[doc = concat!("\n\n`", stringify!($their_field), "`")]
                pub $field: $type,
            )+
        }

        impl $name {
            /// Each field is 0.
            pub const ZERO: $name =
                $name { $($field: <$type as $crate::zero::Zero>::ZERO,)+ };
        }

        impl $crate::zero::Zero for $name {
            const ZERO: $name = $name::ZERO;
        }

        impl $crate::sealed::Sealed for $name {}

        impl $crate::Published for $name {
            const LAYOUT: $crate::Layout = $crate::Layout {
                name: stringify!($theirs),
                bytes: size_of::<$name>(),
                fields: &[
                    $((stringify!($their_field), ::core::mem::offset_of!($name, $field)),)+
                ],
            };
        }

        #[cfg(test)]
        const _: () = {
            use windows_sys::Wdk::Graphics::Direct3D::$theirs as Theirs;
            assert!(size_of::<$name>() == size_of::<Theirs>());
            $(assert!(
                ::core::mem::offset_of!($name, $field)
                    == ::core::mem::offset_of!(Theirs, $their_field)
            );)+
        };
    )+};
}

/// Defines C structures that the public bindings lack: official name and size, then each field's
/// offset, official name, our name and type.
macro_rules! published {
    ($($(#[$meta:meta])* $name:ident = $official:literal, $size:literal bytes {
        $($(#[$field_meta:meta])* $at:literal $official_field:literal $field:ident: $type:ty,)+
    })+) => {$(
        $(#[$meta])*
        #[doc(alias = $official)]
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $($(#[$field_meta])* #[doc(alias = $official_field)] pub $field: $type,)+
        }

        impl $name {
            /// Each field is 0.
            pub const ZERO: $name =
                $name { $($field: <$type as $crate::zero::Zero>::ZERO,)+ };
        }

        impl $crate::zero::Zero for $name {
            const ZERO: $name = $name::ZERO;
        }

        impl $crate::sealed::Sealed for $name {}

        impl $crate::Published for $name {
            const LAYOUT: $crate::Layout = $crate::Layout {
                name: $official,
                bytes: $size,
                fields: &[$(($official_field, $at),)+],
            };
        }

        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(::core::mem::offset_of!($name, $field) == $at);)+
        };
    )+};
}

pub mod d3dkmddi;
pub mod d3dkmthk;
pub mod d3dukmdt;
pub mod miniport;

/// A structure of a public header. Every bit pattern is a valid value of it.
pub trait Published: Copy + sealed::Sealed {
    /// Its size, and the offsets of its fields.
    const LAYOUT: Layout;
}

/// Where the fields of a structure are, by the names of the header.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Name of the structure.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: usize,
    /// Name and offset of each field. The binding's name of a union without a name begins with
    /// `Anonymous`.
    pub fields: &'static [(&'static str, usize)],
}

mod zero {
    /// What a field of a structure may be.
    pub trait Zero {
        const ZERO: Self;
    }

    macro_rules! numbers {
        ($($type:ty)+) => {$(impl Zero for $type {
            const ZERO: $type = 0;
        })+};
    }
    numbers!(u8 u16 u32 u64 i32 i64);

    impl<T: Zero, const N: usize> Zero for [T; N] {
        const ZERO: [T; N] = [T::ZERO; N];
    }
}

mod sealed {
    /// Implemented only for the structures of this crate.
    pub trait Sealed {}
}

/// A union of 64 bytes. Several structures carry one.
pub type Union64 = [u64; 8];
