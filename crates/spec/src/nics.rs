// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network devices that an experiment names, one for each end of a path: by `path.a` and
//! `path.b`, or as the `nic` of the station at that end.

use crate::cell::{Table, View, called, flag};
use crate::error::Problem;
use crate::experiment::Path;
use crate::schema::Value;
use crate::sheet::Named;
use tardy_model::path::{Devices, PathKind, PathTraits};
use tardy_model::station::StationKind;

/// A device, and the key that names it.
type Device = (String, String);

/// A path whose devices the experiment names.
pub(crate) fn named(view: &View<'_>, table: &Table<'_>, kind: PathKind, mtu: u32) -> Result<Path, Problem> {
    let name = kind.traits().name;
    let mut stations: Vec<&Named> = view.stations().iter().collect();
    // Where one of them is a virtual machine, the second device is that one's.
    let is_machine = |station: &Named| {
        let table = view.table("station.*", Some(station));
        let of = table.get("kind", called(StationKind::of));
        kind.traits().devices != Devices::Named && of.is_ok_and(|of| of.traits().is_machine)
    };
    stations.sort_unstable_by_key(|station| (is_machine(station), &station.name));
    let ends = [("a", "enp1s0"), ("b", "enp2s0")];
    let [(a, key_a), (b, key_b)]: [Device; 2] = std::array::from_fn(|n| {
        let (field, example) = ends[n];
        let found = device(view, table, stations.get(n).copied(), (field, example), name);
        table.keep(field, found).unwrap_or_default()
    });
    // Two machines may call their devices the same.
    let machine = |station: &&'_ Named| view.table("station.*", Some(*station)).find("ssh").cloned();
    let are_of_one = stations.first().map(machine) == stations.get(1).map(machine);
    table.check(&["a", "b"], || match a == b && are_of_one {
        true => {
            let message = format!("`{key_a}` and `{key_b}` are both \"{a}\": a {name} has two ends");
            let help = "name the device at the other end of the cable".to_owned();
            Err(view.combination(&[key_b, key_a], message, help))
        }
        false => Ok(()),
    });
    let take = table.get("take", flag)?;
    Ok(Path { named: vec![a, b], take, ..Path::given(kind, mtu) })
}

/// True if the experiment names a device, where it may leave them out.
pub(crate) fn are_named(view: &View<'_>, path: &Table<'_>) -> bool {
    let has_nic = |station: &Named| view.table("station.*", Some(station)).find("nic").is_some();
    ["a", "b"].iter().any(|field| path.find(field).is_some()) || view.stations().iter().any(has_nic)
}

/// The device of one end.
fn device(
    view: &View<'_>,
    path: &Table<'_>,
    station: Option<&Named>,
    (field, example): (&str, &str),
    name: &str,
) -> Result<Device, Problem> {
    let text = |table: &Table<'_>, field: &str| match table.find(field) {
        Some(Value::Text(device)) => Some((device.clone(), table.key(field))),
        _ => None,
    };
    let station = station.map(|named| (named, view.table("station.*", Some(named))));
    let of_station = station.as_ref().and_then(|(_, table)| text(table, "nic"));
    match (text(path, field), of_station) {
        (Some((one, key)), Some((other, of_station))) if one != other => {
            let whose = station.map_or("", |(named, _)| named.name.as_str());
            let message = format!(
                "`{key}` is \"{one}\" and `{of_station}` \"{other}\", and both are the network device of station \
                 `{whose}`"
            );
            Err(view.combination(&[of_station, key], message, "write it once".to_owned()))
        }
        (Some(device), _) | (None, Some(device)) => Ok(device),
        (None, None) => {
            let message = format!("`path.{field}` is missing: path {name} needs a network device for each station");
            let help = format!("write {field} = \"{example}\", as `ip link` shows it");
            let missing = path.missing(field, &["kind"], message, help);
            let is_wrong = station.is_some_and(|(_, table)| !table.are_sound(&["nic"]));
            Err(Problem { knock_on: missing.knock_on || is_wrong, ..missing })
        }
    }
}

/// The `nic` of a station whose path takes no device by its name. Where some other cell has a path
/// that does, it is that one's; and where `--set` chose the path, that of the file is the former
/// path's.
pub(crate) fn unused(view: &View<'_>, station: &Table<'_>, path: PathTraits) {
    let takes = |path: PathTraits| path.devices == Devices::Named || path.devices.may_be_named();
    let is_meant = station.is_written("nic") && !view.is_of_former_kind(&station.key("nic"), "path.kind");
    let mut others = PathKind::ALL.into_iter().map(PathKind::traits).filter(|path| takes(*path));
    if takes(path) || !is_meant || others.any(|other| view.is_somewhere("path.kind", other.name)) {
        return;
    }
    let key = station.key("nic");
    let message = format!("`{key}` has no meaning on path `{}`", path.name);
    let help = match path.devices {
        Devices::Own => "leave it out: the routes there choose the device, and `address` says which of its addresses",
        _ => "write path.kind = \"wire\", or leave it out",
    };
    view.keep::<()>(Err(view.combination(&[key, "path.kind".to_owned()], message, help.to_owned())));
}
