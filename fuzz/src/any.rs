//! A value of any type from an input, by what the type asks of a deserializer. So each message and
//! each argument of a service is made without a list of them.
//!
//! Entry point: [`any`].

use crate::input::Input;
use serde::de::value::Error;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, SeqAccess, VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use tidegate::calls::Handle;

/// Most elements of a list, and most bytes of a text.
const MOST_ELEMENTS: usize = 5;

/// Returns a value that `input` chooses. Most handles are some of `known`.
pub(crate) fn any<'de, T: Deserialize<'de>>(input: &mut Input<'_>, known: &[Handle]) -> T {
    T::deserialize(Any { input, known }).expect("the types of messages take any value")
}

struct Any<'a, 'b> {
    input: &'a mut Input<'b>,
    known: &'a [Handle],
}

impl<'b> Any<'_, 'b> {
    fn again(&mut self) -> Any<'_, 'b> {
        Any { input: self.input, known: self.known }
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $ty:ty)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.input.number() as $ty)
        }
    )*};
}

impl<'de> Deserializer<'de> for Any<'_, '_> {
    type Error = Error;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        unreachable!("a type of a message that says nothing of its form")
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.input.flag())
    }

    numbers! {
        deserialize_u8 visit_u8 u8
        deserialize_u16 visit_u16 u16
        deserialize_u32 visit_u32 u32
        deserialize_u64 visit_u64 u64
        deserialize_i32 visit_i32 i32
        deserialize_i64 visit_i64 i64
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let len = self.input.below(MOST_ELEMENTS);
        let letters = self.input.take(len).iter().map(|byte| char::from(byte & 0x7F));
        visitor.visit_string(letters.collect())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.input.flag() {
            true => visitor.visit_some(self),
            false => visitor.visit_none(),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let known = match name {
            "Handle" => self.known.get(usize::from(self.input.byte()) % (self.known.len() + 1)),
            _ => None,
        };
        match known {
            Some(handle) => visitor.visit_newtype_struct(handle.0.into_deserializer()),
            None => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        // Mostly a short list, and sometimes the 64 bytes of a driver's private data.
        let left = match self.input.byte() {
            255 => 64,
            byte => usize::from(byte) % MOST_ELEMENTS,
        };
        visitor.visit_seq(Elements { of: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Elements { of: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Elements { of: self, left: fields.len() })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let number = self.input.below(variants.len());
        visitor.visit_enum(Variant { of: self, number: number as u32 })
    }

    forward_to_deserialize_any! {
        i8 i16 f32 f64 char str bytes byte_buf unit unit_struct tuple_struct map identifier
        ignored_any
    }
}

/// The elements of a list, or the fields of a structure.
struct Elements<'a, 'b> {
    of: Any<'a, 'b>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(self.of.again()).map(Some)
    }
}

struct Variant<'a, 'b> {
    of: Any<'a, 'b>,
    number: u32,
}

impl<'a, 'b, 'de> EnumAccess<'de> for Variant<'a, 'b> {
    type Error = Error;
    type Variant = Any<'a, 'b>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self::Variant), Error> {
        let number: serde::de::value::U32Deserializer<Error> = self.number.into_deserializer();
        Ok((seed.deserialize(number)?, self.of))
    }
}

impl<'de> VariantAccess<'de> for Any<'_, '_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Elements { of: self, left })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Elements { of: self, left: fields.len() })
    }
}
