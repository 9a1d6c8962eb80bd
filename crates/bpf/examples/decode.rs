// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the hints in metadata areas: `decode OBJECT [STRUCT MEMBER] < AREAS`. Each line of AREAS
//! is the bytes before one packet in hexadecimal. With a struct and a member it prints that member
//! alone, and how many other packets there were.

use std::error::Error;
use tardy_bpf::hints::Layouts;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [object, member @ ..] = arguments.as_slice() else { return Err("name the object that is loaded".into()) };
    let layouts = Layouts::of_object(&std::fs::read(object)?)?;
    // Looked up once. What is left to do for each packet takes nanoseconds.
    let accessor = match member {
        [name, member] => Some(layouts.accessor(name, member)?),
        _ => None,
    };
    let mut others = 0;
    for line in std::io::stdin().lines() {
        // With AF_XDP, the bytes from the frame's beginning to the packet's address.
        let area = bytes(line?.trim())?;
        match (layouts.read(&area), &accessor) {
            (Ok(Some(hint)), None) => println!("{hint}"),
            (Ok(Some(hint)), Some(accessor)) => match accessor.u64(&hint) {
                Some(number) => println!("{number}"),
                None => others += 1,
            },
            (Ok(None), _) => println!("absent"),
            (Err(error), _) => println!("{error}"),
        }
    }
    if accessor.is_some() {
        println!("{others} of another struct");
    }
    Ok(())
}

fn bytes(hex: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let digits: Vec<u8> = hex
        .chars()
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()
        .ok_or("no hexadecimal digit")?;
    Ok(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}
