//! Structures, constants and sizes of the public WDDM headers, as they stand in memory on x86-64.
//!
//! - One module per header: [`d3dukmdt`] (user mode and kernel mode), [`d3dkmthk`] (the D3DKMT
//!   calls), [`d3dkmddi`] (kernel and driver).
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

        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(::core::mem::offset_of!($name, $field) == $at);)+
        };
    )+};
}

pub mod d3dkmddi;
pub mod d3dkmthk;
pub mod d3dukmdt;

/// A union of 64 bytes. Several structures carry one.
pub type Union64 = [u64; 8];
