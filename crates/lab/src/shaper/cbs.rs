// SPDX-License-Identifier: MIT OR Apache-2.0
//! cbs below mqprio: the classes that are named send no faster than `idleslope` in the long run.

use super::mqprio;
use super::tc::{children, step, words};
use crate::path::LinkEnd;
use crate::step::Step;
use tardy_model::shaper::Cbs;

/// As tc takes it.
pub fn arguments(cbs: &Cbs) -> String {
    let credits = cbs.credits();
    format!(
        "cbs idleslope {} sendslope {} hicredit {} locredit {} offload {}",
        credits.idleslope,
        credits.sendslope,
        credits.hicredit,
        credits.locredit,
        u8::from(cbs.offload)
    )
}

pub fn set(cbs: &Cbs, end: &LinkEnd) -> Vec<Step> {
    step(end, &words(&mqprio::arguments(&cbs.classes)), children(&cbs.at, &cbs.classes, &arguments(cbs)))
}
