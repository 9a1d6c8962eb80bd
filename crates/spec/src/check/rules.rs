// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `[validity]` of the file sets about the rules that decide whether figures may be used.

use crate::error::{Faults, Problem, Reason};
use crate::schema::Value;
use crate::sheet::{Assignment, Sheet};
use tardy_model::validity::{RuleDefault, RuleLimit, Setting, Validity, rule};
use tardy_model::verdict::Level;

/// Reads it; what the sheet holds of it is known to name a rule.
pub(crate) fn validity(sheet: &Sheet, faults: &mut Faults) -> Validity {
    let mut validity = Validity::default();
    for (key, row) in &sheet.base {
        let Some((id, field)) = key.strip_prefix("validity.").and_then(|key| key.rsplit_once('.')) else { continue };
        let Some(rule) = rule(id) else { continue };
        let setting: &mut Setting = validity.set.entry(id.to_owned()).or_default();
        let read = match field {
            "limit" => limit(rule, key, row).map(|limit| setting.limit = Some(limit)),
            _ => level(rule, key, row).map(|level| setting.level = Some(level)),
        };
        if let Err(problem) = read {
            faults.add(problem);
        }
    }
    validity
}

fn limit(rule: &RuleDefault, key: &str, row: &Assignment) -> Result<RuleLimit, Problem> {
    let wrong = |message: String, help: String| Problem::new(Reason::Value, &row.node.at, message, help);
    match (rule.limit, &row.value) {
        (Some(RuleLimit::Share(_)), Value::Share(share)) => Ok(RuleLimit::Share(*share)),
        (Some(RuleLimit::Ns(_)), Value::Span(span)) => Ok(RuleLimit::Ns(span.0)),
        (Some(RuleLimit::Share(default)), _) => {
            let help =
                format!("write a share, as limit = \"{}\"", RuleLimit::Share(default).to_string().replace(' ', ""));
            Err(wrong(format!("`{key}`: the limit of {} is a share of the time or of the packets", rule.id), help))
        }
        (Some(RuleLimit::Ns(_)), _) => {
            Err(wrong(format!("`{key}`: the limit of {} is a duration", rule.id), "write limit = \"5ms\"".to_owned()))
        }
        (None, _) => {
            let help = match rule.id {
                "loss" => "leave it out, and write max_loss into the stream's table",
                _ if rule.milder => "leave it out, or set the level: level = \"warning\"",
                _ => "leave it out: the rule judges a fact",
            };
            let help = help.to_owned();
            Err(wrong(format!("`{key}`: the rule {} has no limit that can be set", rule.id), help))
        }
    }
}

fn level(rule: &RuleDefault, key: &str, row: &Assignment) -> Result<Level, Problem> {
    let word = if let Value::Text(word) = &row.value { word.as_str() } else { "" };
    let level = Level::ALL.into_iter().find(|level| level.name() == word).unwrap_or(rule.level);
    if level < rule.level && !rule.milder {
        let message = format!(
            "`{key}`: {} can only be invalid: it means that figures are not what happened, or that packets were lost",
            rule.id
        );
        let help = match rule.id {
            "loss" => "leave it out, and write max_loss into the stream's table",
            _ => "leave it out and remove the cause that its verdict names",
        };
        return Err(Problem::new(Reason::Combination, &row.node.at, message, help));
    }
    Ok(level)
}
