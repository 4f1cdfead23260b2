use z4ai::*;
fn main(){ let a:Vec<String>=std::env::args().collect(); let data=std::fs::read(&a[1]).unwrap(); let dt=Dtype::parse(&a[2]).unwrap();
 let shape: Vec<u64>=a[3].split(',').map(|s|s.parse().unwrap()).collect(); let n:u64=shape.iter().product::<u64>()*dt.width() as u64;
 let off:usize=a[5].parse().unwrap(); let data=&data[off..off+n as usize];
 let reps:usize=a[6].parse().unwrap();
 rayon::ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
 let o=Options::new(dt).shape(shape).effort(Effort::parse(&a[7]).unwrap());
 let mut f=compress(data,&o).unwrap(); let mut out=vec![1;data.len()];
 let mut b=1e9f64;
 for _ in 0..reps { let t=std::time::Instant::now(); if a[4]=="d" { decompress_into(&f,&mut out).unwrap(); } else { f=compress(data,&o).unwrap(); } b=b.min(t.elapsed().as_secs_f64()); }
 println!("{} {:.0} MB/s size {}",a[4],data.len() as f64/b/1e6,f.len());
}
