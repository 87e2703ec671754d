! ULFM's calls in Fortran: rank 1 ends itself, and the others repair the communicator.
program mpi_ulfm
  use mpi
  use mpi_die
  implicit none
  include 'mpif-ext.h'
  integer :: error, class, rank, ranks, comm, shrunk, flag, group, count, acked, word, other, request, wrong = 0
  logical :: is_revoked

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, error)
  call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, error)
  call MPIX_Comm_is_revoked(comm, is_revoked, error)
  call expect(.not. is_revoked, 'revoked too early')
  call MPI_Barrier(comm, error)
  if (rank == 1) call die()
  call MPI_Recv(word, 1, MPI_INTEGER, 1, 0, comm, MPI_STATUS_IGNORE, error)
  call MPI_Error_class(error, class, other)
  call expect(error == MPIX_ERR_PROC_FAILED .and. class == error, 'a receive from the dead')
  flag = 12 + rank
  call MPIX_Comm_agree(comm, flag, error)
  call expect(error == MPIX_ERR_PROC_FAILED .and. flag == 12, 'an agreement')
  call MPIX_Comm_get_failed(comm, group, error)
  call MPI_Group_size(group, count, other)
  call expect(error == MPI_SUCCESS .and. count == 1, 'those that have failed')
  call MPIX_Comm_ack_failed(comm, 1, acked, error)
  call expect(error == MPI_SUCCESS .and. acked == 1, 'an acknowledgement')
  call MPIX_Comm_failure_ack(comm, error)
  call MPIX_Comm_failure_get_acked(comm, group, error)
  call MPI_Group_size(group, count, other)
  call expect(error == MPI_SUCCESS .and. count == 1, 'those that are acknowledged')
  flag = 5
  call MPIX_Comm_iagree(comm, flag, request, error)
  call MPI_Wait(request, MPI_STATUS_IGNORE, error)
  call expect(error == MPI_SUCCESS .and. flag == 5, 'an agreement that is begun')
  call MPIX_Comm_revoke(comm, error)
  call MPIX_Comm_is_revoked(comm, is_revoked, error)
  call expect(error == MPI_SUCCESS .and. is_revoked, 'a revocation')
  call MPI_Recv(word, 1, MPI_INTEGER, 0, 0, comm, MPI_STATUS_IGNORE, error)
  call expect(error == MPIX_ERR_REVOKED, 'a receive after that')
  call MPIX_Comm_shrink(comm, shrunk, error)
  call MPI_Comm_size(shrunk, count, other)
  call expect(error == MPI_SUCCESS .and. count == ranks - 1, 'a shrunk communicator')
  word = 1
  call MPI_Allreduce(word, count, 1, MPI_INTEGER, MPI_SUM, shrunk, error)
  call expect(error == MPI_SUCCESS .and. count == ranks - 1, 'its sum')
  print '(a, i0, a, a)', 'VERDICT ', rank, ': ', merge('right', 'wrong', wrong == 0)
  call MPI_Finalize(error)

contains
  subroutine expect(is_right, what)
    logical, intent(in) :: is_right
    character(len=*), intent(in) :: what
    if (is_right) return
    wrong = wrong + 1
    print '(a, i0, a, a, a, i0)', 'rank ', rank, ': ', what, ': error ', error
  end subroutine
end program
