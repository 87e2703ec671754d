! What mpi_survivor does, in small and in Fortran: MODULE is mpi or mpi_f08. program VICTIM: that rank ends itself half-way.
program mpi_fortran
  use MODULE
  use mpi_die
  implicit none
  integer, parameter :: rounds = 100
  integer :: rank, ranks, error, round, victim, root, i, word, copies, present, last, wrong, of_half
  integer :: mine(2), sums(2)
  double precision :: number, total
  integer, allocatable :: blocks(:), counts(:), places(:)
  character(len=16) :: argument
  integer :: from, to, in, index, some, indices(4), in_order
  logical :: done
#ifdef F08
  type(MPI_Comm) :: copy, half, line
  type(MPI_Request) :: requests(4)
  type(MPI_Status) :: status, statuses(4)
#else
  integer :: copy, half, line, requests(4), status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 4)
#endif

  call get_command_argument(1, argument)
  read (argument, *) victim
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  allocate (blocks(2*ranks), counts(ranks), places(ranks))
  counts = 1
  do i = 1, ranks
    places(i) = 2*(i - 1)
  end do
  call MPI_Comm_dup(MPI_COMM_WORLD, copy, error)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., line, error)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, error)
  last = 2**ranks - 1
  wrong = 0
  do round = 0, rounds - 1
    if (rank == victim .and. round == rounds/2) call die()
    mine = [2**rank, 3*2**rank]
    call MPI_Allreduce(mine, sums, 2, MPI_INTEGER, MPI_SUM, copy, error)
    call check(sums(1), sums(2) == 3*sums(1))
    number = 0.5d0*2**rank
    call MPI_Allreduce(MPI_IN_PLACE, number, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    call check(nint(2*number), .true.)
    root = mod(round, ranks)
    if (root == victim) root = mod(root + 1, ranks)
    total = -1
    call MPI_Reduce(0.25d0*2**rank, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, root, copy, error)
    if (rank == root) call check(nint(4*total), .true.)
    word = -1
    if (rank == root) word = round
    call MPI_Bcast(word, 1, MPI_INTEGER, root, copy, error)
    if (word /= round) wrong = wrong + 1
    blocks = -1
    call MPI_Allgather(rank, 1, MPI_INTEGER, blocks, 1, MPI_INTEGER, copy, error)
    call check_blocks(1)
    blocks = -1
    call MPI_Allgatherv(rank, 1, MPI_INTEGER, blocks, counts, places, MPI_INTEGER, copy, error)
    call check_blocks(2)
    call MPI_Barrier(copy, error)
    call other_collectives()
    call messages()
  end do
  call MPI_Comm_split(copy, mod(rank, 2), rank, half, error)
  call MPI_Allreduce(2**rank, of_half, 1, MPI_INTEGER, MPI_SUM, half, error)
  if (iand(of_half, 2**rank) == 0 .or. iand(of_half, ishft(2**rank, 1)) /= 0) wrong = wrong + 1
  copies = 1
  call MPI_Allreduce(MPI_IN_PLACE, copies, 1, MPI_INTEGER, MPI_MAX, half, error)
  call MPI_Allreduce(MPI_IN_PLACE, copies, 1, MPI_LOGICAL, MPI_LAND, copy, error)
  if (copies /= 1) wrong = wrong + 1
  if (victim >= 0 .and. last /= 2**ranks - 1 - 2**victim) wrong = wrong + 1
  call MPI_Finalize(error)
  if (wrong == 0) then
    print '(a,i0,a,i0)', 'VERDICT ', rank, ': right, ', last
  else
    print '(a,i0,a,i0)', 'VERDICT ', rank, ': wrong, ', wrong
  end if

contains

  ! Blocking and not, on a communicator with a topology.
  subroutine other_collectives()
    integer :: given(ranks), share
    blocks = -1
    call MPI_Gather(rank, 1, MPI_INTEGER, blocks, 1, MPI_INTEGER, root, line, error)
    if (rank == root) call check_blocks(1)
    given = rank
    blocks = -1
    call MPI_Alltoall(given, 1, MPI_INTEGER, blocks, 1, MPI_INTEGER, line, error)
    call check_blocks(1)
    do i = 1, ranks
      given(i) = i - 1
    end do
    share = -1
    call MPI_Scatter(given, 1, MPI_INTEGER, share, 1, MPI_INTEGER, root, line, error)
    if (share /= rank) wrong = wrong + 1
    call MPI_Scan(2**rank, in_order, 1, MPI_INTEGER, MPI_SUM, line, error)
    if (in_order /= iand(last, 2**(rank + 1) - 1)) wrong = wrong + 1
    sums = 0
    blocks = -1
    call MPI_Iallreduce(mine, sums, 2, MPI_INTEGER, MPI_SUM, line, requests(1), error)
    call MPI_Iallgather(rank, 1, MPI_INTEGER, blocks, 1, MPI_INTEGER, line, requests(2), error)
    call MPI_Ibarrier(line, requests(3), error)
    call MPI_Waitany(3, requests, index, status, error)
    if (index < 1 .or. index > 3) wrong = wrong + 1
    call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE, error)
    call check(sums(1), sums(2) == 3*sums(1))
    call check_blocks(1)
    if (requests(1) /= MPI_REQUEST_NULL) wrong = wrong + 1
  end subroutine

  ! To the right. A message to the dead, or from them, is an error; the others arrive.
  subroutine messages()
    integer :: of_send
    to = mod(rank + 1, ranks)
    from = mod(rank + ranks - 1, ranks)
    in = -1
    call MPI_Irecv(in, 1, MPI_INTEGER, from, 4, MPI_COMM_WORLD, requests(1), error)
    call MPI_Isend(rank, 1, MPI_INTEGER, to, 4, MPI_COMM_WORLD, requests(2), of_send)
    if (of_send /= MPI_SUCCESS) then
      if (to /= victim) wrong = wrong + 1
      requests(2) = MPI_REQUEST_NULL
    end if
    if (mod(round, 3) == 0) then
      call MPI_Wait(requests(1), status, error)
    else if (mod(round, 3) == 1) then
      done = .false.
      error = MPI_SUCCESS
      do while (.not. done .and. error == MPI_SUCCESS)
        call MPI_Test(requests(1), done, status, error)
      end do
    else
      call MPI_Waitsome(1, requests, some, indices, statuses, error)
      if (some /= 1 .or. indices(1) /= 1) wrong = wrong + 1
    end if
    if (error == MPI_SUCCESS) then
      if (in /= from) wrong = wrong + 1
#ifdef F08
      if (mod(round, 3) < 2 .and. status%MPI_SOURCE /= from) wrong = wrong + 1
#else
      if (mod(round, 3) < 2 .and. status(MPI_SOURCE) /= from) wrong = wrong + 1
#endif
    else if (from /= victim .or. in /= -1) then
      wrong = wrong + 1
    end if
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE, error)
    if (error /= MPI_SUCCESS .and. to /= victim) wrong = wrong + 1
  end subroutine

  ! found: whose contributions are in a sum. All, or all but the victim, and then for ever.
  subroutine check(found, consistent)
    integer, intent(in) :: found
    logical, intent(in) :: consistent
    present = found
    if (.not. consistent .or. iand(present, not(last)) /= 0) wrong = wrong + 1
    if (present /= last) then
      if (victim < 0) wrong = wrong + 1
      if (victim >= 0) then
        if (ior(present, 2**victim) /= last) wrong = wrong + 1
      end if
    end if
    last = present
  end subroutine

  subroutine check_blocks(distance)
    integer, intent(in) :: distance
    integer :: r
    do r = 0, ranks - 1
      if (blocks(1 + distance*r) == r) cycle
      if (r /= victim .or. blocks(1 + distance*r) /= -1) wrong = wrong + 1
    end do
  end subroutine
end program
