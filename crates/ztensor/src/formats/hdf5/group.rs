//! The links of a group, in whichever of the three forms the file keeps them: a symbol table, messages in the object header, or a fractal heap
//! with a B-tree.

use super::header::{ObjectHeader, kind};
use super::heap::fractal::FractalHeap;
use super::heap::local::{LocalHeap, Names};
use super::image::Image;
use super::message::link::{Link, Target, checked_name, checked_text};
use super::rounds;
use super::tree::version1::{self, Contents};
use super::tree::version2::Tree;
use crate::error::Result;
use crate::limits::Budget;

/// What one link costs beside its name.
const LINK_COST: u64 = size_of::<Link>() as u64;
/// B-tree of links by name.
const LINKS_BY_NAME: u8 = 5;
/// Symbol-table nodes that one task reads; each has a few links.
const NODES: usize = 64;
/// Symbol-table entries that are soft links.
const SOFT: u32 = 2;

/// Whether a header is that of a group.
pub(super) fn is_group(header: &ObjectHeader<'_>) -> bool {
    [kind::SYMBOL_TABLE, kind::LINK_INFO, kind::LINK, kind::GROUP_INFO]
        .iter()
        .any(|&kind| header.find(kind).is_some())
}

/// All links of a group: in the order of their creation where the group keeps it, otherwise by name.
pub(super) fn links(image: &Image<'_>, budget: &mut Budget, header: &ObjectHeader<'_>) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for message in header.all(kind::SYMBOL_TABLE) {
        let mut cursor = image.cursor(&message.body, message.address, "symbol table");
        let (tree, heap) = (cursor.place()?, cursor.place()?);
        symbol_table(image, budget, tree, heap, &mut links)?;
    }
    for message in header.all(kind::LINK) {
        let link = Link::parse(&mut image.cursor(&message.body, message.address, "link"))?;
        add(budget, link, &mut links)?;
    }
    for message in header.all(kind::LINK_INFO) {
        let mut cursor = image.cursor(&message.body, message.address, "list of links");
        cursor.version(0..=0)?;
        let flags = cursor.u8()?;
        cursor.skip(if flags & 1 != 0 { 8 } else { 0 })?;
        if let (Some(heap), Some(tree)) = (cursor.address()?, cursor.address()?) {
            dense(image, budget, tree, heap, &mut links)?;
        }
    }
    if links.iter().all(|link| link.order.is_some()) {
        links.sort_by_key(|link| link.order);
    } else if !links.is_sorted_by(|one, next| one.name <= next.name) {
        links.sort_unstable_by(|one, next| one.name.cmp(&next.name));
    }
    Ok(links)
}

fn symbol_table(
    image: &Image<'_>,
    budget: &mut Budget,
    tree: u64,
    heap: u64,
    links: &mut Vec<Link>,
) -> Result<()> {
    let heap = LocalHeap::read(image, heap)?;
    let names = heap.names();
    let mut nodes = Vec::new();
    version1::walk(image, tree, Contents::Group, |_, node| {
        budget.charge(size_of::<u64>() as u64)?;
        nodes.push(node);
        Ok(())
    })?;
    let parts =
        rounds::work(image, budget, nodes.chunks(NODES), |image, budget, nodes| -> Result<Vec<Link>> {
            let mut links = Vec::new();
            nodes.iter().try_for_each(|&node| symbol_table_node(image, budget, node, names, &mut links))?;
            Ok(links)
        })?;
    for part in parts {
        links.append(&mut part?);
    }
    Ok(())
}

fn symbol_table_node(
    image: &Image<'_>,
    budget: &mut Budget,
    node: u64,
    names: Names<'_>,
    links: &mut Vec<Link>,
) -> Result<()> {
    let head = image.read(node, 8)?;
    let mut cursor = image.cursor(&head, node, "symbol-table node");
    cursor.signature(b"SNOD")?;
    cursor.version(1..=1)?;
    cursor.skip(1)?;
    let count = usize::from(cursor.u16()?);
    let entry = 2 * image.widths.address + 24;
    let start = node.saturating_add(8);
    let body = image.read(start, (count * entry) as u64)?;
    let mut cursor = image.cursor(&body, start, "symbol-table node");
    for _ in 0..count {
        let (name, object, cache) = (cursor.integer(image.widths.address)?, cursor.address()?, cursor.u32()?);
        cursor.skip(4)?;
        let value = cursor.u32()?;
        cursor.skip(12)?;
        let (name, offset) = names.text(image, name)?;
        let name = checked_name(name, offset)?;
        let target = match (cache, object) {
            (SOFT, _) => {
                let (path, offset) = names.text(image, value.into())?;
                Target::Soft(checked_text(path, offset)?)
            }
            (_, Some(address)) => Target::Hard(address),
            (_, None) => return Err(cursor.error("an entry leads nowhere")),
        };
        add(budget, Link { name, order: None, target }, links)?;
    }
    Ok(())
}

fn dense(image: &Image<'_>, budget: &mut Budget, tree: u64, heap: u64, links: &mut Vec<Link>) -> Result<()> {
    let mut heap = FractalHeap::read(image, heap)?;
    let tree = Tree::read(image, tree)?;
    tree.walk(image, |record| {
        if tree.kind() != LINKS_BY_NAME {
            return Err(record.error("the tree does not list links by name"));
        }
        record.skip(4)?;
        let (bytes, address) = heap.object(image, record.take(heap.identifier_length())?)?;
        add(budget, Link::parse(&mut image.cursor(&bytes, address, "link"))?, links)
    })
}

fn add(budget: &mut Budget, link: Link, links: &mut Vec<Link>) -> Result<()> {
    budget.charge(LINK_COST + link.name.len() as u64)?;
    links.push(link);
    Ok(())
}
