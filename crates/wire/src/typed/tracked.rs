//! A deserializer around another one that knows where it is: JSON pointers for faults, and unknown members.
//!
//! Everything is asked for as "whatever is there", so that the type itself says what it cannot take; readers of
//! formats would repeat the value in their message.

use super::fault::Fault;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use std::cell::RefCell;
use std::fmt;
use toolyard_protocol::text::nearest;
use toolyard_protocol::{Format, Violation};

/// More are not listed; the first ones tell enough.
const MAX_VIOLATIONS: usize = 50;

/// Where the reading stands, and what it has found.
pub struct Trail {
    format: Format,
    path: RefCell<Vec<Step>>,
    /// A fault on its way out through the format's own error type.
    fault: RefCell<Option<Fault>>,
    unknown: RefCell<Vec<Violation>>,
}

enum Step {
    Member(String),
    Element(usize),
}

impl Trail {
    pub fn new(format: Format) -> Trail {
        Trail { format, path: RefCell::default(), fault: RefCell::default(), unknown: RefCell::default() }
    }

    /// The value, or everything that is wrong.
    pub fn finish<T>(self, read: Result<T, Fault>) -> Result<T, Vec<Violation>> {
        let here = self.pointer();
        let mut violations = self.unknown.into_inner();
        match read {
            Ok(value) if violations.is_empty() => return Ok(value),
            Ok(_) => {}
            Err(fault) => violations.insert(0, Violation { pointer: here, message: fault.0 }),
        }
        Err(violations)
    }

    fn is_strict(&self) -> bool {
        self.format == Format::Json
    }

    /// Steps into a member or element. Left in place by a failure, so that the path ends at the fault.
    fn within<T, E>(&self, step: Step, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.path.borrow_mut().push(step);
        let value = read()?;
        self.path.borrow_mut().pop();
        Ok(value)
    }

    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in self.path.borrow().iter() {
            pointer.push('/');
            match step {
                Step::Member(name) => pointer.push_str(&name.replace('~', "~0").replace('/', "~1")),
                Step::Element(index) => pointer.push_str(&index.to_string()),
            }
        }
        pointer
    }

    fn note_unknown(&self, known: &[&'static str]) {
        let mut unknown = self.unknown.borrow_mut();
        if unknown.len() >= MAX_VIOLATIONS {
            return;
        }
        let path = self.path.borrow();
        let Some(Step::Member(name)) = path.last() else { return };
        let meant = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean '{near}'?"),
            None if known.is_empty() => "there are no members here".to_owned(),
            None => format!("known are {}", known.join(", ")),
        };
        drop(path);
        unknown.push(Violation { pointer: self.pointer(), message: format!("unknown member; {meant}") });
    }

    /// Turns our fault into whatever error the reader in between uses.
    fn hand_out<T, E: serde::de::Error>(&self, read: Result<T, Fault>) -> Result<T, E> {
        read.map_err(|fault| {
            *self.fault.borrow_mut() = Some(fault);
            E::custom("")
        })
    }

    /// And back again.
    fn take_back<T, E: fmt::Display>(&self, read: Result<T, E>) -> Result<T, Fault> {
        read.map_err(|_| {
            let ours = self.fault.borrow_mut().take();
            ours.unwrap_or_else(|| Fault("is not of the kind that is taken here".to_owned()))
        })
    }
}

/// The deserializer at one place.
pub struct At<'t, D> {
    inner: D,
    trail: &'t Trail,
    role: Role,
}

/// What the value at this place is for.
#[derive(Clone, Copy)]
enum Role {
    Value,
    /// A member's value; the names that its object knows, when it is a struct.
    Member(Option<&'static [&'static str]>),
    /// A member's name, to be remembered as a step.
    Name,
}

impl<'t, D> At<'t, D> {
    pub fn new(inner: D, trail: &'t Trail) -> At<'t, D> {
        At { inner, trail, role: Role::Value }
    }
}

/// What a type asked for, as far as it changes what is taken.
#[derive(Clone, Copy)]
enum Asked {
    Anything,
    Text,
    Struct(&'static [&'static str]),
}

impl<'t, D> At<'t, D> {
    fn seen<V>(&self, visitor: V, asked: Asked) -> Seen<'t, V> {
        Seen { visitor, trail: self.trail, asked, is_name: matches!(self.role, Role::Name) }
    }
}

macro_rules! ask {
    ($($method:ident($($argument:ident: $kind:ty),*) => $asked:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $kind,)* visitor: V) -> Result<V::Value, Fault> {
            let seen = self.seen(visitor, $asked);
            self.trail.take_back(self.inner.deserialize_any(seen))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for At<'_, D> {
    type Error = Fault;

    ask! {
        deserialize_any() => Asked::Anything;
        deserialize_bool() => Asked::Anything;
        deserialize_i8() => Asked::Anything;
        deserialize_i16() => Asked::Anything;
        deserialize_i32() => Asked::Anything;
        deserialize_i64() => Asked::Anything;
        deserialize_u8() => Asked::Anything;
        deserialize_u16() => Asked::Anything;
        deserialize_u32() => Asked::Anything;
        deserialize_u64() => Asked::Anything;
        deserialize_f32() => Asked::Anything;
        deserialize_f64() => Asked::Anything;
        deserialize_char() => Asked::Text;
        deserialize_str() => Asked::Text;
        deserialize_string() => Asked::Text;
        deserialize_bytes() => Asked::Anything;
        deserialize_byte_buf() => Asked::Anything;
        deserialize_unit() => Asked::Anything;
        deserialize_unit_struct(_name: &'static str) => Asked::Anything;
        deserialize_seq() => Asked::Anything;
        deserialize_tuple(_len: usize) => Asked::Anything;
        deserialize_tuple_struct(_name: &'static str, _len: usize) => Asked::Anything;
        deserialize_map() => Asked::Anything;
        deserialize_struct(_name: &'static str, fields: &'static [&'static str]) => Asked::Struct(fields);
        deserialize_identifier() => Asked::Text;
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let seen = self.seen(visitor, Asked::Anything);
        self.trail.take_back(self.inner.deserialize_option(seen))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let seen = self.seen(visitor, Asked::Anything);
        self.trail.take_back(self.inner.deserialize_newtype_struct(name, seen))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let seen = self.seen(visitor, Asked::Anything);
        let read = self.inner.deserialize_enum(name, variants, seen);
        read.map_err(|_| {
            let ours = self.trail.fault.borrow_mut().take();
            ours.unwrap_or_else(|| Fault(format!("must be one of {}", variants.join(", "))))
        })
    }

    /// Asked only for what the type does not know.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if let Role::Member(Some(known)) = self.role
            && self.trail.is_strict()
        {
            self.trail.note_unknown(known);
        }
        self.trail.take_back(self.inner.deserialize_ignored_any(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// A type's own visitor, with the trail in hand.
struct Seen<'t, V> {
    visitor: V,
    trail: &'t Trail,
    asked: Asked,
    is_name: bool,
}

impl<V> Seen<'_, V> {
    /// Remembers the name of the member that comes next.
    fn remember(&self, name: &str) {
        if self.is_name {
            self.trail.path.borrow_mut().push(Step::Member(name.to_owned()));
        }
    }
}

macro_rules! see {
    ($($method:ident($kind:ty);)*) => {$(
        fn $method<E: serde::de::Error>(self, value: $kind) -> Result<V::Value, E> {
            let Seen { visitor, trail, .. } = self;
            trail.hand_out(visitor.$method(value))
        }
    )*};
}

macro_rules! see_integer {
    ($($method:ident($kind:ty);)*) => {$(
        fn $method<E: serde::de::Error>(self, value: $kind) -> Result<V::Value, E> {
            let Seen { visitor, trail, asked, .. } = self;
            // Names and variants have numbers too, inside Rust; they are no part of any format.
            let refused = matches!(asked, Asked::Text);
            let found = serde::de::Unexpected::Signed(0);
            trail.hand_out(match refused {
                true => Err(Fault::invalid_type(found, &"a text")),
                false => visitor.$method(value),
            })
        }
    )*};
}

macro_rules! see_text {
    ($($method:ident($kind:ty);)*) => {$(
        fn $method<E: serde::de::Error>(self, value: $kind) -> Result<V::Value, E> {
            self.remember(&value);
            let Seen { visitor, trail, .. } = self;
            trail.hand_out(visitor.$method(value))
        }
    )*};
}

macro_rules! see_bytes {
    ($($method:ident($kind:ty);)*) => {$(
        fn $method<E: serde::de::Error>(self, value: $kind) -> Result<V::Value, E> {
            let Seen { visitor, trail, asked, .. } = self;
            let found = serde::de::Unexpected::Bytes(&[]);
            trail.hand_out(match asked {
                Asked::Text => Err(Fault::invalid_type(found, &"a text")),
                _ => visitor.$method(value),
            })
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Seen<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    see! { visit_bool(bool); visit_f32(f32); visit_f64(f64); visit_char(char); }
    see_integer! {
        visit_i8(i8); visit_i16(i16); visit_i32(i32); visit_i64(i64);
        visit_u8(u8); visit_u16(u16); visit_u32(u32); visit_u64(u64);
    }
    see_text! { visit_str(&str); visit_borrowed_str(&'de str); visit_string(String); }
    see_bytes! { visit_bytes(&[u8]); visit_borrowed_bytes(&'de [u8]); visit_byte_buf(Vec<u8>); }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.trail.hand_out(self.visitor.visit_none())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.trail.hand_out(self.visitor.visit_unit())
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.trail.hand_out(self.visitor.visit_some(At::new(inner, self.trail)))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.trail.hand_out(self.visitor.visit_newtype_struct(At::new(inner, self.trail)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut inner: A) -> Result<V::Value, A::Error> {
        let Seen { visitor, trail, asked, .. } = self;
        let positional = matches!(asked, Asked::Struct(_));
        if positional && trail.is_strict() {
            let found = serde::de::Unexpected::Seq;
            return trail.hand_out(Err(Fault::invalid_type(found, &"an object")));
        }
        let read = visitor.visit_seq(Elements { inner: &mut inner, trail, next: 0 });
        let value = trail.hand_out(read)?;
        // Fields that a newer peer has added at the end.
        while positional && inner.next_element::<IgnoredAny>()?.is_some() {}
        Ok(value)
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let Seen { visitor, trail, asked, .. } = self;
        let known = if let Asked::Struct(fields) = asked { Some(fields) } else { None };
        trail.hand_out(visitor.visit_map(Members { inner, trail, known }))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.trail.hand_out(self.visitor.visit_enum(Variant { inner, trail: self.trail }))
    }
}

struct Seed<'t, S> {
    seed: S,
    trail: &'t Trail,
    role: Role,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Seed<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let Seed { seed, trail, role } = self;
        trail.hand_out(seed.deserialize(At { inner, trail, role }))
    }
}

struct Elements<'t, A> {
    inner: A,
    trail: &'t Trail,
    next: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<'_, A> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        let Elements { inner, trail, next } = self;
        let seed = Seed { seed, trail, role: Role::Value };
        *next += 1;
        let read = trail.within(Step::Element(*next - 1), || inner.next_element_seed(seed));
        trail.take_back(read)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

struct Members<'t, A> {
    inner: A,
    trail: &'t Trail,
    known: Option<&'static [&'static str]>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<'_, A> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        let seed = Seed { seed, trail: self.trail, role: Role::Name };
        let depth = self.trail.path.borrow().len();
        let name = self.trail.take_back(self.inner.next_key_seed(seed))?;
        let mut path = self.trail.path.borrow_mut();
        // Names that are no texts leave no step of their own.
        if name.is_some() && path.len() == depth {
            path.push(Step::Member("?".to_owned()));
        }
        Ok(name)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        let seed = Seed { seed, trail: self.trail, role: Role::Member(self.known) };
        // The name is on the path already; a value that was read leaves it.
        let value = self.trail.take_back(self.inner.next_value_seed(seed))?;
        self.trail.path.borrow_mut().pop();
        Ok(value)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

struct Variant<'t, A> {
    inner: A,
    trail: &'t Trail,
}

impl<'de, 't, A: EnumAccess<'de>> EnumAccess<'de> for Variant<'t, A> {
    type Error = Fault;
    type Variant = Variant<'t, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), Fault> {
        let Variant { inner, trail } = self;
        let (value, inner) = trail.take_back(inner.variant_seed(Seed { seed, trail, role: Role::Value }))?;
        Ok((value, Variant { inner, trail }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Variant<'_, A> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        self.trail.take_back(self.inner.unit_variant())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Fault> {
        let Variant { inner, trail } = self;
        trail.take_back(inner.newtype_variant_seed(Seed { seed, trail, role: Role::Value }))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        let Variant { inner, trail } = self;
        let seen = Seen { visitor, trail, asked: Asked::Anything, is_name: false };
        trail.take_back(inner.tuple_variant(len, seen))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let Variant { inner, trail } = self;
        let seen = Seen { visitor, trail, asked: Asked::Struct(fields), is_name: false };
        trail.take_back(inner.struct_variant(fields, seen))
    }
}
