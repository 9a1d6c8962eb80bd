// SPDX-License-Identifier: MIT OR Apache-2.0
//! VLANs on a path of any kind: devices that write the tags of streams over IP, and receive queues
//! by priority. Port `packet` writes its tags itself and needs none of it. A path is a segment of
//! its own: its VLANs are those of the streams that take it, and join its own ends alone.

use crate::machine::FactsByHost;
use crate::names::{LinkNumber, Names};
use crate::not_found::NotFound;
use crate::path::link::{EndId, Ends, LinkEnd, NO_IPV6, PathError, PathId, VlanEnd};
use crate::step::{Action, Inverse, Question, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use tardy_model::port::TagBy;
use tardy_model::stream::Stream;
use tardy_spec::experiment::Setup;

/// For each VLAN, in the order of ids: the PCP that belongs to a socket's priority.
type Maps = BTreeMap<u16, BTreeMap<u32, u8>>;

/// The VLANs of streams over IP, by what `of` says of a stream.
fn maps<'s, K: Ord, E>(setup: &'s Setup, of: impl Fn(&'s Stream) -> Result<K, E>) -> Result<BTreeMap<K, Maps>, E> {
    let mut maps: BTreeMap<K, Maps> = BTreeMap::new();
    for stream in setup.streams.iter().filter(|stream| stream.port.traits().tag == TagBy::Device) {
        if let Some(tag) = stream.tag {
            maps.entry(of(stream)?).or_default().entry(tag.vlan).or_default().insert(stream.priority, tag.pcp);
        }
    }
    Ok(maps)
}

/// True if two cells need the same VLAN devices and the same receive queues.
pub fn has_same_devices(a: &Setup, b: &Setup) -> bool {
    /// By the two stations, in whatever direction, and the path that was chosen: from this it
    /// follows on which path.
    fn on_paths(setup: &Setup) -> BTreeMap<([&String; 2], Option<PathId>), Maps> {
        fn joined(stream: &Stream) -> Result<([&String; 2], Option<PathId>), Infallible> {
            let Stream { from, to, path, .. } = stream;
            Ok((if from < to { [from, to] } else { [to, from] }, *path))
        }
        match maps(setup, joined) {
            Ok(maps) => maps,
            Err(never) => match never {},
        }
    }
    on_paths(a) == on_paths(b) && go_between(a) == go_between(b)
}

/// Streams whose tagged packets are to go into a queue of their priority.
fn by_priority(setup: &Setup) -> impl Iterator<Item = &Stream> {
    setup.streams.iter().filter(|stream| setup.softirq.by_pcp && stream.tag.is_some())
}

/// Between which stations such packets go, on which path, and whether they are answered: from this
/// it follows at which ends they arrive.
fn go_between(setup: &Setup) -> BTreeSet<(&str, &str, Option<PathId>, bool)> {
    by_priority(setup)
        .map(|stream| (stream.from.as_str(), stream.to.as_str(), stream.path, stream.kind.is_answered()))
        .collect()
}

/// Of both ends of a stream those at which packets arrive.
fn arrives<T>(stream: &Stream, [from, to]: [T; 2]) -> impl Iterator<Item = T> + use<T> {
    [Some(to), Some(from).filter(|_| stream.kind.is_answered())].into_iter().flatten()
}

/// What the VLANs on a path add to its plan.
pub(crate) type VlanSteps = (Vec<Step>, Vec<Question>);

/// A VLAN on one path.
struct Segment<'m> {
    path: PathId,
    /// The path's place among those with VLANs.
    path_at: u8,
    vlan: u16,
    map: &'m BTreeMap<u32, u8>,
    /// Its place among all.
    at: u8,
}

/// Each VLAN of each path, in order.
///
/// # Errors
/// If they are more than a run has addresses for.
fn segments(on_paths: &BTreeMap<PathId, Maps>) -> Result<Vec<Segment<'_>>, PathError> {
    let count = on_paths.values().map(BTreeMap::len).sum();
    if count > usize::from(Names::VLANS) {
        return Err(PathError::TooManyVlans { count });
    }
    let paths = (0..).zip(on_paths);
    let vlans = paths.flat_map(|(path_at, (path, maps))| maps.iter().map(move |of| (*path, path_at, of)));
    Ok((0..)
        .zip(vlans)
        .map(|(at, (path, path_at, (vlan, map)))| Segment { path, path_at, vlan: *vlan, map, at })
        .collect())
}

/// Adds the VLAN devices to paths that are laid: at each end of a path one for each of its VLANs,
/// which knows all other ends of that path.
///
/// # Errors
/// If it is not clear which path a stream takes, or a slot lacks names or addresses.
pub(crate) fn add_to_paths(setup: &Setup, names: Names, ends: &mut Ends) -> Result<VlanSteps, PathError> {
    let (mut steps, mut read_back) = (Vec::new(), Vec::new());
    let on_paths = maps(setup, |stream| ends.of_stream(stream).map(|[near, _]| near.path))?;
    for segment in segments(&on_paths)? {
        let all = ends_of(setup, names, ends, &segment)?;
        let links = ends.iter_mut().filter(|(id, _)| id.path == segment.path).map(|(_, link)| link);
        for (at, link) in links.enumerate() {
            let near = &all[at].0;
            let others = || all.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other);
            steps.extend(device(link, near, segment.vlan, segment.map));
            steps.push(address(link, near, names.vlan_subnet(all.len(), segment.at).prefix, others()));
            let show = |object| link.place.ip(&["-j", "-d", object, "show", "dev", &near.device]);
            read_back.extend([show("addr"), show("neigh")].map(|show| Question::at(&link.place, show)));
            link.vlans.insert(segment.vlan, near.clone());
        }
    }
    Ok((steps, read_back))
}

/// The ends of a VLAN, in order, with the hardware addresses of the devices below them.
fn ends_of(
    setup: &Setup,
    names: Names,
    ends: &Ends,
    segment: &Segment<'_>,
) -> Result<Vec<(VlanEnd, String)>, PathError> {
    let Segment { path, path_at, vlan, at, .. } = *segment;
    // A namespace may have ends of several paths, so a device's name counts all; an address, those
    // of its own segment.
    let on_path: Vec<_> = ends.iter().enumerate().filter(|(_, (id, _))| id.path == path).collect();
    let subnet = names.vlan_subnet(on_path.len(), at);
    let end = |(on_path, (of_all, (_, link))): (usize, &(usize, (EndId, &LinkEnd)))| {
        let number = |number| {
            let too_many = || PathError::TooManyEnds { station: link.station.clone(), number: number + 1 };
            LinkNumber::new(number).ok_or_else(too_many)
        };
        let (of_all, on_path) = (number(*of_all)?, number(on_path)?);
        let end = VlanEnd {
            device: names.vlan(of_all, vlan),
            address: subnet.address(on_path).into(),
            address6: setup.has_ipv6().then(|| names.vlan_address6(on_path, path_at, vlan)),
        };
        Ok((end, link.mac.clone()))
    };
    on_path.iter().enumerate().map(end).collect()
}

/// Two steps: IPv6's own chatter is switched off by itself, for a kernel without IPv6 refuses that.
fn device(link: &LinkEnd, near: &VlanEnd, vlan: u16, map: &BTreeMap<u32, u8>) -> [Step; 2] {
    let ip = |args: &[&str]| link.place.ip(args);
    let vlan = vlan.to_string();
    let pairs: Vec<String> = map.iter().map(|(priority, pcp)| format!("{priority}:{pcp}")).collect();
    let mut words = vec!["link", "add", "link", &link.device, "name", &near.device, "type", "vlan", "id", &vlan];
    words.push("egress-qos-map");
    words.extend(pairs.iter().map(String::as_str));
    let why = "a device that writes the VLAN tag, the PCP by the socket's priority";
    let delete = Inverse::within(&link.place, Action::DeleteLink { device: near.device.clone() });
    let made = Step::new(&link.place, why, vec![ip(&words)]).undone_by(vec![delete]);
    let quiet = vec![ip(&["link", "set", "dev", &near.device, "addrgenmode", "none"])];
    [made, Step::new(&link.place, "no IPv6 chatter of its own", quiet).tolerating(NO_IPV6)]
}

fn address<'a>(
    link: &LinkEnd,
    near: &VlanEnd,
    prefix: u8,
    others: impl Iterator<Item = &'a (VlanEnd, String)> + Clone,
) -> Step {
    let ip = |args: &[&str]| link.place.ip(args);
    let device = near.device.as_str();
    let neighbour =
        |peer: &str, mac: &str| ip(&["neigh", "replace", peer, "lladdr", mac, "dev", device, "nud", "permanent"]);
    let mut does = vec![ip(&["addr", "add", &format!("{}/{prefix}", near.address), "dev", device])];
    does.extend(others.clone().map(|(far, mac)| neighbour(&far.address.to_string(), mac)));
    if let Some(here) = near.address6 {
        does.push(ip(&["addr", "add", &format!("{here}/{}", Names::VLAN_PREFIX6), "dev", device, "nodad"]));
        does.extend(others.filter_map(|(far, mac)| Some(neighbour(&far.address6?.to_string(), mac))));
    }
    does.push(ip(&["link", "set", "dev", device, "up"]));
    Step::new(&link.place, "an address, and the neighbour fixed so that no ARP falls into a measurement", does)
}

/// Receive queues by priority: PCP 0 into queue 0 and so on, the rest into the last. The device
/// must filter by itself (ethtool's n-tuple rules); one that cannot refuses the first rule with a
/// reason of its own.
///
/// # Errors
/// If nobody has counted the queues of a device.
pub(crate) fn queues(setup: &Setup, ends: &Ends, found: &FactsByHost) -> Result<VlanSteps, PathError> {
    let (mut steps, mut read_back) = (Vec::new(), Vec::new());
    let both = |stream: &Stream| ends.of_stream(stream).map(|both| arrives(stream, both));
    let arrive: BTreeSet<EndId> =
        by_priority(setup).map(both).collect::<Result<Vec<_>, NotFound>>()?.into_iter().flatten().collect();
    for (_, end) in ends.iter().filter(|(id, _)| arrive.contains(id)) {
        let queues = match setup.path.queues {
            Some(queues) => queues,
            None => counted(end, found)?,
        };
        let device = end.device.as_str();
        let shell = |script: &str| end.place.shell(script, &[]);
        for pcp in 0..8u32 {
            let queue = pcp.min(queues.max(1) - 1);
            // A bit that is set in the mask does not matter. Not every ethtool's exit status says
            // that the device refused a rule, so the script asks for the rule again.
            let does = format!(
                "ethtool -N {device} flow-type ether vlan {:#06x} vlan-mask 0x1fff action {queue} loc {pcp} && \
                 ethtool -n {device} rule {pcp} >/dev/null",
                pcp << 13
            );
            let undoes = Action::DeleteRule { device: device.to_owned(), location: pcp };
            let why = "tagged packets into the receive queue of their priority";
            let step = Step::new(&end.place, why, vec![shell(&does)]);
            steps.push(step.undone_by(vec![Inverse::within(&end.place, undoes)]));
        }
        // It prints no JSON. Its first line says how many rules the device has.
        let rules = format!(r#"printf '["%s"]\n' "$(ethtool -n {device} | paste -sd ' ' | tr -d '\\\t"')""#);
        read_back.push(Question::at(&end.place, shell(&rules)));
    }
    Ok((steps, read_back))
}

/// How many receive queues the device of a station has, which was there before the path.
fn counted(end: &LinkEnd, found: &FactsByHost) -> Result<u32, PathError> {
    let host = found.of(end.place.host)?;
    let steering = host.named(&end.device).and_then(|name| host.steering.get(name));
    let steering = steering.ok_or_else(|| PathError::Unread { device: end.device.clone() })?;
    Ok(steering.queues.len() as u32)
}
