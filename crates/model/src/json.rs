// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program printed as JSON. It is kept as text, because nobody here needs its shape. A tree
//! of it would take two hundred times its memory, and it comes from guests and from run folders of
//! others.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::sync::Arc;

/// One JSON document. Copies share the text.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(with = "serde_json::Value", inline)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl Default for Json {
    fn default() -> Self {
        Json(Arc::from(RawValue::NULL.to_owned()))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Json {}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Json(Arc::from(Box::<RawValue>::deserialize(deserializer)?)))
    }
}
