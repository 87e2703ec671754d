// MPI's own end, watched: PMPI_Finalize may wait for a rank that dies meanwhile (MPICH's does), and then this one gets
// out of it.
#pragma once

namespace ucft::mpi {

// Once, right after MPI has begun: finds out when the program's callbacks on MPI_COMM_SELF are over.
void prepare_end();

// PMPI_Finalize on the calling thread, while another one lets ucft work. False: a rank has died since then, and MPI has
// not come to its end within a time that does not depend on it. MPI can't be used any more then.
bool end_mpi(int& error);

}  // namespace ucft::mpi
