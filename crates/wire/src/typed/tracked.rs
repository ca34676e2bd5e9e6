//! A deserializer wrapper that tracks the path: errors get JSON pointers, and unknown members are recorded.
//!
//! It requests every value with `deserialize_any`, so that the type itself reports a mismatch; the format's
//! own error messages would quote the value.

use super::decode_error::DecodeError;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use std::cell::RefCell;
use std::fmt;
use toolyard_protocol::text::nearest;
use toolyard_protocol::{Format, Violation};

/// The maximum number of unknown members that are listed.
const MAX_VIOLATIONS: usize = 50;

/// The current path, and the violations found so far.
pub struct PathTracker {
    format: Format,
    path: RefCell<Vec<Step>>,
    /// An error that is being passed through the format's own error type.
    error: RefCell<Option<DecodeError>>,
    unknown: RefCell<Vec<Violation>>,
}

enum Step {
    Member(String),
    Element(usize),
}

impl PathTracker {
    pub fn new(format: Format) -> PathTracker {
        PathTracker {
            format,
            path: RefCell::default(),
            error: RefCell::default(),
            unknown: RefCell::default(),
        }
    }

    /// The value, or all violations.
    pub fn finish<T>(self, read: Result<T, DecodeError>) -> Result<T, Vec<Violation>> {
        let here = self.pointer();
        let mut violations = self.unknown.into_inner();
        match read {
            Ok(value) if violations.is_empty() => return Ok(value),
            Ok(_) => {}
            Err(error) => violations.insert(0, Violation { pointer: here, message: error.0 }),
        }
        Err(violations)
    }

    fn is_strict(&self) -> bool {
        self.format == Format::Json
    }

    /// Adds a step to the path while `read` runs. On failure it stays, so that the path ends at the error.
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

    fn record_unknown(&self, known: &[&'static str]) {
        let mut unknown = self.unknown.borrow_mut();
        if unknown.len() >= MAX_VIOLATIONS {
            return;
        }
        let path = self.path.borrow();
        let Some(Step::Member(name)) = path.last() else { return };
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean '{near}'?"),
            None if known.is_empty() => "no members are allowed".to_owned(),
            None => format!("expected {}", known.join(", ")),
        };
        drop(path);
        unknown.push(Violation { pointer: self.pointer(), message: format!("unknown member; {hint}") });
    }

    /// Stores the error and returns a placeholder of the format's error type.
    fn wrap_error<T, E: serde::de::Error>(&self, read: Result<T, DecodeError>) -> Result<T, E> {
        read.map_err(|error| {
            *self.error.borrow_mut() = Some(error);
            E::custom("")
        })
    }

    /// The stored error in place of the format's own error.
    fn unwrap_error<T, E: fmt::Display>(&self, read: Result<T, E>) -> Result<T, DecodeError> {
        read.map_err(|_| {
            let ours = self.error.borrow_mut().take();
            ours.unwrap_or_else(|| DecodeError("has an unsupported type".to_owned()))
        })
    }
}

/// The deserializer of one value.
pub struct TrackedDeserializer<'t, D> {
    inner: D,
    tracker: &'t PathTracker,
    role: Role,
}

/// The role of the value.
#[derive(Clone, Copy)]
enum Role {
    Value,
    /// A member's value; with the field names if its object is a struct.
    Member(Option<&'static [&'static str]>),
    /// A member's name, which becomes a step of the path.
    Name,
}

impl<'t, D> TrackedDeserializer<'t, D> {
    pub fn new(inner: D, tracker: &'t PathTracker) -> TrackedDeserializer<'t, D> {
        TrackedDeserializer { inner, tracker, role: Role::Value }
    }
}

/// The type that was requested, as far as it restricts the accepted values.
#[derive(Clone, Copy)]
enum TypeHint {
    Any,
    Text,
    Struct(&'static [&'static str]),
}

impl<'t, D> TrackedDeserializer<'t, D> {
    fn tracked<V>(&self, visitor: V, hint: TypeHint) -> TrackedVisitor<'t, V> {
        TrackedVisitor { visitor, tracker: self.tracker, hint, is_name: matches!(self.role, Role::Name) }
    }
}

macro_rules! forward_deserialize {
    ($($method:ident($($argument:ident: $kind:ty),*) => $hint:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $kind,)* visitor: V) -> Result<V::Value, DecodeError> {
            let tracked = self.tracked(visitor, $hint);
            self.tracker.unwrap_error(self.inner.deserialize_any(tracked))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for TrackedDeserializer<'_, D> {
    type Error = DecodeError;

    forward_deserialize! {
        deserialize_any() => TypeHint::Any;
        deserialize_bool() => TypeHint::Any;
        deserialize_i8() => TypeHint::Any;
        deserialize_i16() => TypeHint::Any;
        deserialize_i32() => TypeHint::Any;
        deserialize_i64() => TypeHint::Any;
        deserialize_u8() => TypeHint::Any;
        deserialize_u16() => TypeHint::Any;
        deserialize_u32() => TypeHint::Any;
        deserialize_u64() => TypeHint::Any;
        deserialize_f32() => TypeHint::Any;
        deserialize_f64() => TypeHint::Any;
        deserialize_char() => TypeHint::Text;
        deserialize_str() => TypeHint::Text;
        deserialize_string() => TypeHint::Text;
        deserialize_bytes() => TypeHint::Any;
        deserialize_byte_buf() => TypeHint::Any;
        deserialize_unit() => TypeHint::Any;
        deserialize_unit_struct(_name: &'static str) => TypeHint::Any;
        deserialize_seq() => TypeHint::Any;
        deserialize_tuple(_len: usize) => TypeHint::Any;
        deserialize_tuple_struct(_name: &'static str, _len: usize) => TypeHint::Any;
        deserialize_map() => TypeHint::Any;
        deserialize_struct(_name: &'static str, fields: &'static [&'static str]) => TypeHint::Struct(fields);
        deserialize_identifier() => TypeHint::Text;
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let tracked = self.tracked(visitor, TypeHint::Any);
        self.tracker.unwrap_error(self.inner.deserialize_option(tracked))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let tracked = self.tracked(visitor, TypeHint::Any);
        self.tracker.unwrap_error(self.inner.deserialize_newtype_struct(name, tracked))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let tracked = self.tracked(visitor, TypeHint::Any);
        let read = self.inner.deserialize_enum(name, variants, tracked);
        read.map_err(|_| {
            let ours = self.tracker.error.borrow_mut().take();
            ours.unwrap_or_else(|| DecodeError(format!("must be one of {}", variants.join(", "))))
        })
    }

    /// Called only for unknown members.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if let Role::Member(Some(known)) = self.role
            && self.tracker.is_strict()
        {
            self.tracker.record_unknown(known);
        }
        self.tracker.unwrap_error(self.inner.deserialize_ignored_any(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// A type's own visitor with the tracker.
struct TrackedVisitor<'t, V> {
    visitor: V,
    tracker: &'t PathTracker,
    hint: TypeHint,
    is_name: bool,
}

impl<V> TrackedVisitor<'_, V> {
    /// Adds the member's name to the path.
    fn push_name(&self, name: &str) {
        if self.is_name {
            self.tracker.path.borrow_mut().push(Step::Member(name.to_owned()));
        }
    }
}

macro_rules! forward_visit {
    ($($method:ident($kind:ty);)*) => {$(
        fn $method<E: serde::de::Error>(self, value: $kind) -> Result<V::Value, E> {
            let TrackedVisitor { visitor, tracker, .. } = self;
            tracker.wrap_error(visitor.$method(value))
        }
    )*};
}

macro_rules! forward_integer {
    ($($method:ident($kind:ty);)*) => {$(
        fn $method<E: serde::de::Error>(self, value: $kind) -> Result<V::Value, E> {
            let TrackedVisitor { visitor, tracker, hint, .. } = self;
            // Serde also accepts field and variant indices, which neither format allows.
            let refused = matches!(hint, TypeHint::Text);
            let found = serde::de::Unexpected::Signed(0);
            tracker.wrap_error(match refused {
                true => Err(DecodeError::invalid_type(found, &"a string")),
                false => visitor.$method(value),
            })
        }
    )*};
}

macro_rules! forward_text {
    ($($method:ident($kind:ty);)*) => {$(
        fn $method<E: serde::de::Error>(self, value: $kind) -> Result<V::Value, E> {
            self.push_name(&value);
            let TrackedVisitor { visitor, tracker, .. } = self;
            tracker.wrap_error(visitor.$method(value))
        }
    )*};
}

macro_rules! forward_bytes {
    ($($method:ident($kind:ty);)*) => {$(
        fn $method<E: serde::de::Error>(self, value: $kind) -> Result<V::Value, E> {
            let TrackedVisitor { visitor, tracker, hint, .. } = self;
            let found = serde::de::Unexpected::Bytes(&[]);
            tracker.wrap_error(match hint {
                TypeHint::Text => Err(DecodeError::invalid_type(found, &"a string")),
                _ => visitor.$method(value),
            })
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for TrackedVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    forward_visit! { visit_bool(bool); visit_f32(f32); visit_f64(f64); visit_char(char); }
    forward_integer! {
        visit_i8(i8); visit_i16(i16); visit_i32(i32); visit_i64(i64);
        visit_u8(u8); visit_u16(u16); visit_u32(u32); visit_u64(u64);
    }
    forward_text! { visit_str(&str); visit_borrowed_str(&'de str); visit_string(String); }
    forward_bytes! { visit_bytes(&[u8]); visit_borrowed_bytes(&'de [u8]); visit_byte_buf(Vec<u8>); }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.tracker.wrap_error(self.visitor.visit_none())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.tracker.wrap_error(self.visitor.visit_unit())
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.tracker.wrap_error(self.visitor.visit_some(TrackedDeserializer::new(inner, self.tracker)))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.tracker
            .wrap_error(self.visitor.visit_newtype_struct(TrackedDeserializer::new(inner, self.tracker)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut inner: A) -> Result<V::Value, A::Error> {
        let TrackedVisitor { visitor, tracker, hint, .. } = self;
        let positional = matches!(hint, TypeHint::Struct(_));
        if positional && tracker.is_strict() {
            let found = serde::de::Unexpected::Seq;
            return tracker.wrap_error(Err(DecodeError::invalid_type(found, &"an object")));
        }
        let read = visitor.visit_seq(Elements { inner: &mut inner, tracker, next: 0 });
        let value = tracker.wrap_error(read)?;
        // Skips fields that a newer client has added at the end.
        while positional && inner.next_element::<IgnoredAny>()?.is_some() {}
        Ok(value)
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let TrackedVisitor { visitor, tracker, hint, .. } = self;
        let known = if let TypeHint::Struct(fields) = hint { Some(fields) } else { None };
        tracker.wrap_error(visitor.visit_map(Members { inner, tracker, known }))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.tracker.wrap_error(self.visitor.visit_enum(Variant { inner, tracker: self.tracker }))
    }
}

struct TrackedSeed<'t, S> {
    seed: S,
    tracker: &'t PathTracker,
    role: Role,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for TrackedSeed<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let TrackedSeed { seed, tracker, role } = self;
        tracker.wrap_error(seed.deserialize(TrackedDeserializer { inner, tracker, role }))
    }
}

struct Elements<'t, A> {
    inner: A,
    tracker: &'t PathTracker,
    next: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<'_, A> {
    type Error = DecodeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, DecodeError> {
        let Elements { inner, tracker, next } = self;
        let seed = TrackedSeed { seed, tracker, role: Role::Value };
        *next += 1;
        let read = tracker.within(Step::Element(*next - 1), || inner.next_element_seed(seed));
        tracker.unwrap_error(read)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

struct Members<'t, A> {
    inner: A,
    tracker: &'t PathTracker,
    known: Option<&'static [&'static str]>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<'_, A> {
    type Error = DecodeError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, DecodeError> {
        let seed = TrackedSeed { seed, tracker: self.tracker, role: Role::Name };
        let depth = self.tracker.path.borrow().len();
        let name = self.tracker.unwrap_error(self.inner.next_key_seed(seed))?;
        let mut path = self.tracker.path.borrow_mut();
        // A name that is not a string added no step.
        if name.is_some() && path.len() == depth {
            path.push(Step::Member("?".to_owned()));
        }
        Ok(name)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, DecodeError> {
        let seed = TrackedSeed { seed, tracker: self.tracker, role: Role::Member(self.known) };
        // `next_key_seed` added the name to the path; it is removed after the value.
        let value = self.tracker.unwrap_error(self.inner.next_value_seed(seed))?;
        self.tracker.path.borrow_mut().pop();
        Ok(value)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

struct Variant<'t, A> {
    inner: A,
    tracker: &'t PathTracker,
}

impl<'de, 't, A: EnumAccess<'de>> EnumAccess<'de> for Variant<'t, A> {
    type Error = DecodeError;
    type Variant = Variant<'t, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), DecodeError> {
        let Variant { inner, tracker } = self;
        let (value, inner) =
            tracker.unwrap_error(inner.variant_seed(TrackedSeed { seed, tracker, role: Role::Value }))?;
        Ok((value, Variant { inner, tracker }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Variant<'_, A> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        self.tracker.unwrap_error(self.inner.unit_variant())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, DecodeError> {
        let Variant { inner, tracker } = self;
        tracker.unwrap_error(inner.newtype_variant_seed(TrackedSeed { seed, tracker, role: Role::Value }))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, DecodeError> {
        let Variant { inner, tracker } = self;
        let tracked = TrackedVisitor { visitor, tracker, hint: TypeHint::Any, is_name: false };
        tracker.unwrap_error(inner.tuple_variant(len, tracked))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let Variant { inner, tracker } = self;
        let tracked = TrackedVisitor { visitor, tracker, hint: TypeHint::Struct(fields), is_name: false };
        tracker.unwrap_error(inner.struct_variant(fields, tracked))
    }
}
