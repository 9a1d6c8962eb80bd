// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network devices that an experiment names, one for each end of a path: by `path.a` and
//! `path.b`, or as the `nic` of the station at that end. The one of a virtual machine is the second
//! one: the machine has it for itself (path `vfio`), or what is behind the machine's own device
//! leads to it (paths `bridge`, `macvtap`, `ovs`, `ovs-netdev` and `xdp`).

use crate::cell::{Table, View, called, flag};
use crate::check::NO_UPLINK;
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
    if kind.traits().takes_uplink && stations.len() == 2 && stations.iter().all(|station| is_machine(station)) {
        return Err(no_cable(view, table, &stations));
    }
    let ends = [("a", "enp1s0"), ("b", "enp2s0")];
    let [(a, key_a), (b, key_b)]: [Device; 2] = std::array::from_fn(|n| {
        let (field, example) = ends[n];
        let found = device(view, table, stations.get(n).copied(), (field, example), kind.traits());
        table.keep(field, found).unwrap_or_default()
    });
    // Two machines may call their devices the same.
    let machine = |station: &&'_ Named| view.table("station.*", Some(*station)).find("ssh").cloned();
    let are_of_one = stations.first().map(machine) == stations.get(1).map(machine);
    table.check(&["a", "b"], || match a == b && are_of_one {
        true => {
            let what = if kind.traits().devices == Devices::Named { format!("a {name}") } else { "a cable".to_owned() };
            let message = format!("`{key_a}` and `{key_b}` are both \"{a}\": {what} has two ends");
            let help = "name the device at the other end of the cable".to_owned();
            Err(view.combination(&[key_b, key_a], message, help))
        }
        false => Ok(()),
    });
    let take = table.get("take", flag)?;
    Ok(Path { named: vec![a, b], take, ..Path::given(kind, mtu) })
}

/// No cable is between two virtual machines of this machine.
fn no_cable(view: &View<'_>, table: &Table<'_>, stations: &[&Named]) -> Problem {
    let of_path = ["a", "b"].into_iter().filter(|field| table.is_written(field)).map(|field| table.key(field));
    let tables = stations.iter().map(|station| view.table("station.*", Some(*station)));
    let of_stations = tables.filter(|of| of.is_written("nic")).map(|of| of.key("nic"));
    let keys: Vec<String> = of_path.chain(of_stations).collect();
    let names = stations.iter().map(|station| station.name.as_str()).collect::<Vec<_>>().join("` and `");
    let message = format!(
        "`{}` names a network device, and stations `{names}` are both virtual machines, between which there is no cable",
        keys.first().map_or("path.a", String::as_str)
    );
    view.combination(&keys, message, "leave it out, or write kind = \"netns\" for one of the stations".to_owned())
}

/// `path.take` where no cell names a device to be taken. On path `vfio` the ports of a guest are.
pub(crate) fn nothing_to_take(view: &View<'_>, table: &Table<'_>, kind: PathKind) -> Result<(), Problem> {
    let takes = kind.traits().takes_uplink && table.get("take", flag)?;
    let of_stations = view.stations().iter().map(|named| view.table("station.*", Some(named)).key("nic"));
    let mut names = ["path.a", "path.b"].into_iter().map(str::to_owned).chain(of_stations);
    if !takes || names.any(|key| view.differs(&key)) {
        return Ok(());
    }
    let message = format!("`path.take` is for network devices, and none is named on path {}", kind.traits().name);
    Err(table.wrong(&["take"], message, "write a and b too, or leave it out"))
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
    kind: PathTraits,
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
            let name = kind.name;
            let (needs, or) = match kind.takes_uplink {
                true => ("takes a network device for each station, or for none", ", or leave out the other one too"),
                false => ("needs a network device for each station", ""),
            };
            let message = format!("`path.{field}` is missing: path {name} {needs}");
            let help = format!("write {field} = \"{example}\", as `ip link` shows it{or}");
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
    let takes = |path: PathTraits| path.may_be_named();
    let is_meant = station.is_written("nic") && !view.is_of_former_kind(&station.key("nic"), "path.kind");
    let mut others = PathKind::ALL.into_iter().map(PathKind::traits).filter(|path| takes(*path));
    if takes(path) || !is_meant || others.any(|other| view.is_somewhere("path.kind", other.name)) {
        return;
    }
    let key = station.key("nic");
    let message = format!("`{key}` has no meaning on path `{}`", path.name);
    let help = match path.devices {
        Devices::Own => "leave it out: the routes there choose the device, and `address` says which of its addresses",
        _ if path.devices.backend().is_some() => NO_UPLINK,
        _ => "write path.kind = \"wire\", or leave it out",
    };
    view.keep::<()>(Err(view.combination(&[key, "path.kind".to_owned()], message, help.to_owned())));
}
